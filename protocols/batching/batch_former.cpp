#include <godwit/protocols/batching/batch_former.hpp>
#include <godwit/protocols/batching/queue_order.hpp>

#include <algorithm>

namespace godwit::protocols {

namespace {

double slo_seconds(std::int64_t ttft_ns) noexcept {
  return static_cast<double>(ttft_ns > 0 ? ttft_ns : undemanding_ttft_ns) * 1e-9;
}

} // namespace

bool batch_former::takes(std::int64_t ttft_ns, std::uint32_t expected_tokens) const noexcept {
  if (requests_ == 0 || !rule_.on()) return true;
  const auto size = static_cast<double>(requests_ + 1);
  const double slo = (slo_seconds(ttft_ns) + slo_max_) * size;
  const double length = (static_cast<double>(expected_tokens) + length_max_) * size;
  return rule_.slo_weight * slo + rule_.length_weight * length <= 1;
}

void batch_former::add(std::int64_t ttft_ns, std::uint32_t expected_tokens) noexcept {
  ++requests_;
  slo_max_ = std::max(slo_max_, slo_seconds(ttft_ns));
  length_max_ = std::max(length_max_, static_cast<double>(expected_tokens));
}

} // namespace godwit::protocols
