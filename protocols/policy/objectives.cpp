#include <godwit/protocols/policy/objectives.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace godwit::protocols {

namespace {

std::int64_t within(std::int64_t objective_ns, std::int64_t gone_ns, double margin) noexcept {
  const double left = static_cast<double>(objective_ns) * (1 - margin) - static_cast<double>(gone_ns);
  return static_cast<std::int64_t>(std::clamp(left, 1.0, 1e18));
}

std::string milliseconds_of(std::int64_t ns) {
  char out[32];
  const double time = static_cast<double>(ns) / 1e6;
  std::snprintf(out, sizeof out, time < 100 ? "%.3g ms" : "%.0f ms", time);
  return out;
}

} // namespace

latency_objectives objectives_left(const hurried_request& r, const objectives_policy& policy) noexcept {
  latency_objectives out;
  out.refusable = policy.early_rejection && r.priority >= 0 && r.execution_level == 0;
  if (r.ttft_ns > 0) out.ttft_ns = within(r.ttft_ns, r.waited_ns, policy.margin);
  if (r.tpot_ns > 0) out.tpot_ns = within(r.tpot_ns, 0, policy.margin);
  return out;
}

std::string describe_lateness(const hurried_request& r, const objectives_policy& policy, std::int64_t expected_ttft_ns,
                              std::int64_t expected_tpot_ns) {
  std::string out = "No instance is expected to meet the request's objectives";
  if (policy.margin > 0) out += " with a margin of " + std::to_string(std::lround(policy.margin * 100)) + " %";
  out += ':';
  if (r.ttft_ns > 0 && expected_ttft_ns > 0)
    out += " " + milliseconds_of(r.ttft_ns) + " to the first token, where " + milliseconds_of(expected_ttft_ns) +
           " are expected from now";
  if (r.tpot_ns > 0)
    out += std::string(out.back() == ':' ? "" : ";") + " " + milliseconds_of(r.tpot_ns) +
           " for each further one, where " + milliseconds_of(expected_tpot_ns) + " are expected";
  return out + ". Please try again later.";
}

} // namespace godwit::protocols
