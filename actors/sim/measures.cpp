#include <godwit/actors/sim/simulation.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <algorithm>
#include <limits>

namespace godwit::actors::sim {

namespace workload = protocols::workload;

fragmentation fragmentation_of(std::span<const protocols::load_report> loads) {
  std::uint64_t free_everywhere = 0;
  std::vector<std::uint64_t> demands;
  for (const auto& load : loads) {
    const auto unused = load.blocks_total - std::min(load.blocks_used, load.blocks_total);
    const auto free = unused - std::min(load.outstanding_blocks, unused);
    const auto demand = load.queued_blocks - std::min(load.outstanding_blocks, load.queued_blocks);
    free_everywhere += free;
    if (load.waiting > 0 && demand > free) demands.push_back(demand);
  }
  std::sort(demands.begin(), demands.end());
  fragmentation out;
  out.heads = static_cast<std::uint32_t>(demands.size());
  for (const auto demand : demands) {
    if (out.blocks + demand > free_everywhere) break;
    out.blocks += demand;
    ++out.fitting;
  }
  return out;
}

std::int64_t covered_ns(std::vector<std::pair<std::int64_t, std::int64_t>> spans) {
  std::sort(spans.begin(), spans.end());
  std::int64_t covered = 0, upto = std::numeric_limits<std::int64_t>::min();
  for (const auto& [begin, end] : spans) {
    if (end <= upto) continue;
    covered += end - std::max(begin, upto);
    upto = end;
  }
  return covered;
}

std::vector<protocols::token_id> prompt_of(const workload::workload_request& request, std::size_t index,
                                           std::uint32_t vocabulary, std::uint64_t seed) {
  std::vector<protocols::token_id> out;
  out.reserve(request.prompt_tokens);
  const auto append = [&](workload::counter_random random, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<protocols::token_id>(random.below(vocabulary)));
  };
  // Streams: the requests' own prompts have odd numbers, shared prefixes even ones.
  for (const auto hash : request.prefix_hashes)
    append(workload::counter_random(seed, 2 * hash),
           std::min<std::size_t>(workload::tokens_per_prefix_hash, request.prompt_tokens - out.size()));
  append(workload::counter_random(seed, 2 * std::uint64_t{index} + 1), request.prompt_tokens - out.size());
  return out;
}

} // namespace godwit::actors::sim
