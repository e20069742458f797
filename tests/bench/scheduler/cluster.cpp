#include "scheduler/cluster.hpp"

#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>

namespace godwit::bench {

using protocols::load_report;

reported_cluster::reported_cluster(std::uint32_t running) : running_(running) {
  for (std::uint32_t id = 1; id <= instances; ++id) {
    loads_.emplace_back(protocols::instance_id{id}, 1, 0, true);
    fill(loads_.back());
  }
}

const load_report& reported_cluster::next() {
  auto& report = loads_[random_.below(loads_.size())];
  fill(report);
  return report;
}

void reported_cluster::fill(load_report& r) {
  ++r.sequence;
  r.running = static_cast<std::uint32_t>(running_ / 2 + random_.below(running_));
  r.running_max = 2 * running_;
  r.waiting_max = 64;
  r.blocks_total = 40 * running_;
  // From all of the pool to none of it left for each running request, 12 blocks at most.
  const auto left = std::min<std::uint64_t>(random_.below(12U * r.running + 1), r.blocks_total);
  r.blocks_used = static_cast<std::uint32_t>(r.blocks_total - left);
  r.waiting = random_.below(8) == 0 ? static_cast<std::uint32_t>(1 + random_.below(4)) : 0;
  r.queued_blocks = r.waiting == 0 ? 0 : static_cast<std::uint32_t>(random_.below(4U * running_));
  r.waiting_blocks = r.queued_blocks * r.waiting;
}

plain_sort::plain_sort(const std::vector<load_report>& loads) {
  for (const auto& load : loads) unsorted_.emplace_back(protocols::freeness(load), load.instance);
  sorted_ = unsorted_;
}

protocols::instance_id plain_sort::operator()() {
  std::copy(unsorted_.begin(), unsorted_.end(), sorted_.begin());
  std::sort(sorted_.begin(), sorted_.end());
  return sorted_.back().second;
}

} // namespace godwit::bench
