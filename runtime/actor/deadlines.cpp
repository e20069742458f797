#include "actor/deadlines.hpp"

namespace godwit::runtime::detail {

void deadlines::place(std::size_t at, entry e) noexcept {
  position_[e.wait.slot] = static_cast<std::uint32_t>(at);
  heap_[at] = e;
}

void deadlines::up(std::size_t at, entry e) noexcept {
  while (at > 0 && e < heap_[(at - 1) / 2]) {
    place(at, heap_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  place(at, e);
}

void deadlines::down(std::size_t at, entry e) noexcept {
  for (;;) {
    auto child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
    if (!(heap_[child] < e)) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, e);
}

void deadlines::add(async::wait_id wait, time_point time) {
  if (wait.slot >= position_.size()) position_.resize(wait.slot + 1, nowhere);
  const entry e{time, added_++, wait};
  heap_.push_back(e);
  up(heap_.size() - 1, e);
}

void deadlines::remove_at(std::size_t at) noexcept {
  position_[heap_[at].wait.slot] = nowhere;
  const auto last = heap_.back();
  heap_.pop_back();
  if (at == heap_.size()) return;
  if (at > 0 && last < heap_[(at - 1) / 2])
    up(at, last);
  else
    down(at, last);
}

void deadlines::remove(async::wait_id wait) noexcept {
  if (wait.slot >= position_.size() || position_[wait.slot] == nowhere) return;
  const auto at = position_[wait.slot];
  if (heap_[at].wait == wait) remove_at(at);
}

async::wait_id deadlines::pop() noexcept {
  const auto wait = heap_.front().wait;
  remove_at(0);
  return wait;
}

} // namespace godwit::runtime::detail
