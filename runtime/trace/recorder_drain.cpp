#include "trace/recorder_core.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

// How what was recorded leaves the recorder.
namespace godwit::runtime::trace::detail {

void recorder_core::drain_ring(thread_book& book, const recorder::taker& take) {
  const auto end = book.last.head();
  auto n = book.drained;
  std::uint64_t missed = 0;
  if (end - n > book.last.size()) {
    missed = end - n - book.last.size();
    n += missed;
  }
  slot s;
  for (; n < end; ++n) {
    if (!book.last.get(n, s)) {
      ++missed;
      continue;
    }
    if (missed > 0) {
      event gap;
      gap.kind = event_kind::gap;
      gap.id = {s.process, 0};
      gap.thread = book.number;
      gap.count = std::exchange(missed, 0);
      gap.begin_ns = gap.queued_ns = gap.end_ns = ticks_.to_ns(s.begin);
      lost_.fetch_add(gap.count, std::memory_order_relaxed);
      take(gap, {});
    }
    auto e = to_event(s, book.number);
    take(e, s.type ? s.type->name : std::string_view{});
  }
  if (missed > 0) {
    event gap;
    gap.kind = event_kind::gap;
    gap.thread = book.number;
    gap.count = missed;
    gap.begin_ns = gap.queued_ns = gap.end_ns = now_ns();
    lost_.fetch_add(missed, std::memory_order_relaxed);
    take(gap, {});
  }
  book.drained = end;
}

void recorder_core::drain(const recorder::taker& take) {
  ticks_.adjust();
  std::vector<thread_book*> books;
  std::vector<std::shared_ptr<const beside>> others;
  std::uint64_t missed = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& book : books_) books.push_back(book.get());
    if (beside_first_ > beside_drained_) missed = beside_first_ - beside_drained_;
    const auto from = std::max(beside_drained_, beside_first_);
    for (auto n = from - beside_first_; n < beside_.size(); ++n) others.push_back(beside_[n]);
    beside_drained_ = beside_first_ + beside_.size();
  }
  for (auto* book : books) drain_ring(*book, take);
  if (missed > 0) {
    event gap;
    gap.kind = event_kind::gap;
    gap.count = missed;
    gap.begin_ns = gap.queued_ns = gap.end_ns = others.empty() ? now_ns() : others.front()->what.begin_ns;
    lost_.fetch_add(missed, std::memory_order_relaxed);
    take(gap, {});
  }
  for (const auto& one : others) {
    auto what = one->what; // `take` may change it
    take(what, one->name);
  }
}

recording recorder_core::snapshot(std::chrono::nanoseconds last) const {
  const_cast<tick_source&>(ticks_).adjust();
  recording out;
  out.names.emplace_back();
  std::map<std::string, std::uint32_t, std::less<>> indices;
  const auto index_of = [&](std::string_view name) -> std::uint32_t {
    if (name.empty()) return 0;
    const auto found = indices.find(name);
    if (found != indices.end()) return found->second;
    out.names.emplace_back(name);
    const auto index = static_cast<std::uint32_t>(out.names.size() - 1);
    indices.emplace(name, index);
    return index;
  };
  const auto now = now_ns();
  const auto since = last.count() >= now ? std::numeric_limits<std::int64_t>::min() : now - last.count();
  std::vector<const thread_book*> books;
  std::vector<std::shared_ptr<const beside>> others;
  {
    const std::lock_guard lock(mutex_);
    out.processes = processes_;
    for (const auto& book : books_) books.push_back(book.get());
    for (const auto& [who, began] : living_) out.actors[who] = began.second;
    for (const auto& [who, name] : ended_) out.actors[who] = name;
    others.assign(beside_.begin(), beside_.end());
  }
  for (const auto& one : others) {
    if (one->what.end_ns < since) continue;
    out.events.push_back(one->what);
    out.events.back().name = index_of(one->name);
  }
  for (const auto* book : books) {
    const auto end = book->last.head();
    slot s;
    for (auto n = end > book->last.size() ? end - book->last.size() : 0; n < end; ++n) {
      if (!book->last.get(n, s)) continue;
      auto e = to_event(s, book->number);
      if (e.end_ns < since) continue;
      e.name = index_of(s.type ? s.type->name : std::string_view{});
      out.events.push_back(std::move(e));
    }
  }
  std::stable_sort(out.events.begin(), out.events.end(), [&](const event& a, const event& b) {
    return std::pair{out.at(a), a.id} < std::pair{out.at(b), b.id};
  });
  return out;
}

} // namespace godwit::runtime::trace::detail
