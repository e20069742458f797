#include "trace/recorder_core.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

// How what was recorded leaves the recorder.
namespace godwit::runtime::trace::detail {

namespace {

event gap_of(std::uint64_t count, std::int64_t ns, std::uint32_t process = 0, std::uint32_t thread = 0) {
  event gap;
  gap.kind = event_kind::gap;
  gap.id = {process, 0};
  gap.thread = thread;
  gap.count = count;
  gap.begin_ns = gap.queued_ns = gap.end_ns = ns;
  return gap;
}

} // namespace

void recorder_core::drain_ring(thread_book& book, const recorder::taker& take) {
  const auto end = book.last.head();
  auto n = book.drained;
  std::uint64_t missed = 0;
  const auto tell_missed = [&](std::int64_t ns, std::uint32_t process) {
    if (missed == 0) return;
    lost_.fetch_add(missed, std::memory_order_relaxed);
    auto gap = gap_of(std::exchange(missed, 0), ns, process, book.number);
    take(gap, {});
  };
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
    tell_missed(ticks_.to_ns(s.begin), s.process);
    auto e = to_event(s, book.number);
    take(e, s.type ? s.type->name : std::string_view{});
  }
  tell_missed(now_ns(), 0);
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
  lost_.fetch_add(missed, std::memory_order_relaxed);
  missed += unbooked_.exchange(0, std::memory_order_relaxed);
  if (missed > 0) {
    auto gap = gap_of(missed, others.empty() ? now_ns() : others.front()->what.begin_ns);
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
