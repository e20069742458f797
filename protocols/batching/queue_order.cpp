#include <godwit/protocols/batching/queue_order.hpp>

#include <algorithm>
#include <limits>

namespace godwit::protocols {

namespace {

constexpr std::int64_t prompt_tokens_per_step = 32; // that take as long as one more step of a batch
constexpr std::int64_t work_max = std::int64_t{1} << 20U;

// Arrivals come from peers.
std::int64_t later(std::int64_t when, std::int64_t by) noexcept {
  using limits = std::numeric_limits<std::int64_t>;
  if (by > 0) return when > limits::max() - by ? limits::max() : when + by;
  return when < limits::min() - by ? limits::min() : when + by;
}

} // namespace

std::int64_t work_of(const queued_request& r) noexcept {
  return std::min(std::int64_t{r.expected_tokens} + r.prompt_tokens / prompt_tokens_per_step, work_max);
}

queue_place place_in_queue(const queue_rule& rule, const queued_request& r) noexcept {
  queue_place place{r.priority, false, 0, r.arrival_ns, r.serial};
  if (rule.order == queue_order::fcfs) return place;
  place.fresh = !r.begun;
  if (r.begun) return place;
  const auto aging = std::clamp(rule.aging_ns, std::int64_t{0}, queue_rule::aging_ns_max);
  switch (rule.order) {
  case queue_order::fcfs:
    break;
  case queue_order::sjf:
    place.due_ns = later(r.arrival_ns, work_of(r) * aging);
    break;
  case queue_order::ljf:
    place.due_ns = later(r.arrival_ns, -work_of(r) * aging);
    break;
  case queue_order::edf:
    place.due_ns = later(r.arrival_ns, r.ttft_ns > 0 ? r.ttft_ns : undemanding_ttft_ns);
    break;
  }
  return place;
}

} // namespace godwit::protocols
