#include <godwit/protocols/policy/recent_arrivals.hpp>

#include <algorithm>

namespace godwit::protocols {

namespace {
constexpr std::size_t kept_min = 8; // fewer say little of how often they come
constexpr int times_max = 4;        // that the past is taken to come again
} // namespace

void recent_arrivals::add(const queue_rule& rule, const queued_request& r, const expected_work& work) {
  if (kept_.empty() && rule.order == queue_order::fcfs && r.priority == 0) return;
  if (kept_.size() < kept_max) {
    kept_.push_back({r, work});
    return;
  }
  kept_[oldest_] = {r, work};
  oldest_ = (oldest_ + 1) % kept_max;
}

void recent_arrivals::clear() noexcept {
  kept_.clear();
  oldest_ = 0;
}

expected_work recent_arrivals::overtaking(const queue_rule& rule, const queued_request& r,
                                          double within_ns) const noexcept {
  expected_work sum;
  if (kept_.size() < kept_min) return sum;
  const auto ago = [&r](const one& before) {
    return static_cast<double>(r.arrival_ns) - static_cast<double>(before.who.arrival_ns);
  };
  const double past = ago(kept_[oldest_]); // so long they took to come
  if (past <= 0) return sum;
  const auto mine = place_in_queue(rule, r);
  for (int time = 0; time < times_max && past * time < within_ns; ++time)
    for (const auto& before : kept_) {
      const double after = std::max(ago(before), 0.0) + past * time;
      if (after > within_ns) continue;
      auto next = before.who;
      next.arrival_ns = r.arrival_ns + static_cast<std::int64_t>(after);
      next.begun = false;
      if (place_in_queue(rule, next) >= mine) continue;
      sum.requests += before.work.requests;
      sum.blocks += before.work.blocks;
      sum.tokens += before.work.tokens;
      sum.pairs += before.work.pairs;
    }
  return sum;
}

} // namespace godwit::protocols
