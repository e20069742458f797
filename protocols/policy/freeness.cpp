#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <cmath>

namespace godwit::protocols {

std::uint64_t virtual_usage(const load_report& load) noexcept {
  return std::uint64_t{load.blocks_used} + load.queued_blocks + load.headroom_blocks;
}

double freeness(const load_report& load) noexcept { return freeness(load, 0, 0); }

double freeness(const load_report& load, std::int64_t blocks_more, std::int64_t running_more) noexcept {
  if (load.terminating) return no_freeness;
  // In floating point from the start: no sum of counts is too large for it, and it is exact below 2^53.
  const auto left = static_cast<double>(load.blocks_total) - static_cast<double>(virtual_usage(load)) -
                    static_cast<double>(blocks_more);
  if (left <= 0) return left;
  const auto running = static_cast<double>(load.running) + static_cast<double>(running_more);
  return left / std::max(running, 1.0);
}

bool has_memory_left(const load_report& load) noexcept {
  return std::uint64_t{load.blocks_used} + load.queued_blocks < load.blocks_total;
}

double finite(double freeness) noexcept {
  if (std::isnan(freeness)) return -freeness_bound;
  return std::clamp(freeness, -freeness_bound, freeness_bound);
}

} // namespace godwit::protocols
