#include <godwit/protocols/policy/freeness.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <algorithm>

namespace godwit::protocols {

namespace {

struct sums {
  double blocks = 0; ///< of the pools
  double used = 0;
  double requests = 0;
  std::size_t instances = 0;

  [[nodiscard]] double left_for_each() const noexcept {
    const auto left = blocks - used;
    return left <= 0 ? left : left / std::max(requests, 1.0);
  }
};

sums of(const std::vector<load_report>& loads) noexcept {
  sums out;
  for (const auto& load : loads) {
    if (!load.ready || load.terminating) continue;
    // What is free is not used by those that wait for a place, whatever `queued_blocks` says.
    const auto waits = std::uint64_t{load.outstanding_blocks} + load.waiting_blocks;
    out.blocks += load.blocks_total;
    out.used += static_cast<double>(virtual_usage(load) - load.queued_blocks + waits);
    out.requests += static_cast<double>(load.running) + load.waiting;
    ++out.instances;
  }
  return out;
}

} // namespace

double total_freeness(const std::vector<load_report>& loads) noexcept { return total_freeness_with(loads, 0); }

double total_freeness_with(const std::vector<load_report>& loads, std::size_t more) noexcept {
  auto all = of(loads);
  if (all.instances == 0) return no_freeness;
  all.blocks += all.blocks / static_cast<double>(all.instances) * static_cast<double>(more);
  return all.left_for_each();
}

double total_freeness_without(const std::vector<load_report>& loads, const load_report& leaving) noexcept {
  auto all = of(loads);
  if (all.instances <= 1) return no_freeness;
  all.blocks -= leaving.blocks_total;
  return all.left_for_each();
}

} // namespace godwit::protocols
