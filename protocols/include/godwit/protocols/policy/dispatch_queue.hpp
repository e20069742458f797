#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// Queries that wait for a dispatch decision, for a scheduler that takes in all that came in before it decides anything
/// (Llumnix section 4.4.3: highest scheduling priority first, first come first served within).
///
/// Decisions are made at once, so that this queue is only as long as the burst which came in within one turn; but the
/// order within a burst decides who gets the freest instance and the last place in a queue. The lower number is the
/// higher priority; within one the earlier arrival, then the order of `push`. Arrivals of different homes are only
/// comparable as far as their clocks are. O(log waiting) each.
template <class Query> class dispatch_queue {
public:
  explicit dispatch_queue(std::size_t waiting_max) : waiting_max_(waiting_max) {}

  /// Empty: taken in. Otherwise the queue is full and this is the query that has to go: the one that would be decided
  /// last, which may be another one than came.
  [[nodiscard]] std::optional<Query> push(std::int32_t priority, std::int64_t arrival_ns, Query query) {
    waiting_.emplace_back(priority, arrival_ns, pushed_++, std::move(query));
    if (waiting_.size() <= waiting_max_) {
      std::push_heap(waiting_.begin(), waiting_.end(), later);
      return std::nullopt;
    }
    // Rare, since the bound is far above what a turn brings: so it may cost O(waiting).
    const auto last =
        std::max_element(waiting_.begin(), waiting_.end(), [](const entry& a, const entry& b) { return later(b, a); });
    auto too_many = std::move(last->query);
    waiting_.erase(last);
    std::make_heap(waiting_.begin(), waiting_.end(), later);
    return too_many;
  }

  /// The next to decide.
  [[nodiscard]] std::optional<Query> pop() {
    if (waiting_.empty()) return std::nullopt;
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    auto next = std::optional<Query>{std::move(waiting_.back().query)};
    waiting_.pop_back();
    return next;
  }

  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }

private:
  struct entry {
    std::int32_t priority;
    std::int64_t arrival_ns;
    std::uint64_t serial;
    Query query;
    entry(std::int32_t level, std::int64_t arrival, std::uint64_t number, Query what)
        : priority(level), arrival_ns(arrival), serial(number), query(std::move(what)) {}
  };
  static bool later(const entry& a, const entry& b) noexcept {
    return std::tie(a.priority, a.arrival_ns, a.serial) > std::tie(b.priority, b.arrival_ns, b.serial);
  }

  std::vector<entry> waiting_; // a heap, the next to decide in front
  std::size_t waiting_max_;
  std::uint64_t pushed_ = 0;
};

} // namespace godwit::protocols
