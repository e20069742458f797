#include "sim/timetable.hpp"

#include "sim/scheduler.hpp"

#include <bit>
#include <utility>

namespace godwit::runtime::sim::detail {

void timetable::add(node& n) {
  if (used_ == nodes_.size()) make_room();
  n.place = used_++;
  nodes_[*n.place] = &n;
  changed(n);
}

void timetable::remove(node& n) {
  if (!n.place) return;
  nodes_[*n.place] = nullptr;
  set(*n.place, never);
  n.place.reset();
}

void timetable::changed(node& n) {
  if (n.changed) return;
  n.changed = true;
  changed_.push_back(&n);
}

void timetable::refresh() {
  for (auto* n : changed_) {
    n->changed = false;
    if (!n->place) continue;
    auto due = n->timers.empty() ? never : n->timers.earliest();
    if (n->jobs && !n->jobs->clock().empty()) due = std::min(due, n->jobs->clock().earliest());
    set(*n->place, due);
  }
  changed_.clear();
}

void timetable::set(std::size_t place, time due) noexcept {
  auto at = nodes_.size() + place;
  for (least_[at] = due; at > 1;) {
    at /= 2;
    const auto least = std::min(least_[2 * at], least_[2 * at + 1]);
    if (std::exchange(least_[at], least) == least) return;
  }
}

// Whoever is here moves together, and as many may come as are here.
void timetable::make_room() {
  std::erase(nodes_, nullptr);
  used_ = nodes_.size();
  nodes_.resize(std::bit_ceil(2 * used_ + 1));
  least_.assign(2 * nodes_.size(), never);
  for (std::size_t place = 0; place < used_; ++place) {
    nodes_[place]->place = place;
    changed(*nodes_[place]);
  }
}

} // namespace godwit::runtime::sim::detail
