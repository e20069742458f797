#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <cmath>
#include <cstdint>

/// Load reports for the tests of the policies.
namespace godwit::protocols {

/// Of an instance with 100 blocks, a batch of 8 and a queue of 10.
inline load_report load_of(std::uint32_t instance, std::uint32_t used = 0, std::uint32_t running = 0,
                           std::uint64_t sequence = 1) {
  load_report r{instance_id{instance}, 1, sequence, true};
  r.blocks_total = 100;
  r.blocks_used = used;
  r.running = running;
  r.running_max = 8;
  r.waiting_max = 10;
  return r;
}

/// Of an instance that runs ten requests, with two blocks each as long as there are some, and has this freeness, a
/// multiple of 0.1.
inline load_report load_with_freeness(std::uint32_t instance, double freeness) {
  auto r = load_of(instance, 20, 10);
  r.running_max = 64;
  const auto left = static_cast<std::int64_t>(std::lround(freeness > 0 ? freeness * 10 : freeness));
  r.blocks_used += static_cast<std::uint32_t>(left < 0 ? -left : 0);
  r.blocks_total = static_cast<std::uint32_t>(r.blocks_used + left);
  return r;
}

/// Anything that a report may say, extremes included.
inline load_report random_load(std::uint32_t instance, std::uint64_t sequence, workload::counter_random& random) {
  load_report r{instance_id{instance}, 1, sequence, random.below(8) != 0};
  r.terminating = random.below(8) == 0;
  r.blocks_total = static_cast<std::uint32_t>(random.below(3) == 0 ? random.below(10) : random.below(5000));
  r.blocks_used = static_cast<std::uint32_t>(random.below(r.blocks_total + 1U));
  r.running_max = static_cast<std::uint32_t>(random.below(5) == 0 ? 0 : random.below(64));
  r.running = static_cast<std::uint32_t>(random.below(r.running_max + 1U));
  r.places_kept = static_cast<std::uint32_t>(random.below(3));
  r.migrating = static_cast<std::uint32_t>(random.below(3));
  r.waiting_max = static_cast<std::uint32_t>(random.below(5) == 0 ? 0 : random.below(20));
  r.waiting = static_cast<std::uint32_t>(random.below(2) == 0 ? 0 : random.below(r.waiting_max + 1U));
  r.queued_blocks = static_cast<std::uint32_t>(r.waiting == 0 ? 0 : random.below(6000));
  r.headroom_blocks = static_cast<std::uint32_t>(random.below(3) == 0 ? random.below(r.blocks_total + 1U) : 0);
  r.headroom_profiled = static_cast<std::uint32_t>(random.below(r.blocks_total + 1U));
  r.execution_levels = static_cast<std::uint32_t>(random.below(4));
  r.outstanding_blocks = static_cast<std::uint32_t>(random.below(r.queued_blocks + 1U));
  r.waiting_blocks = static_cast<std::uint32_t>(r.waiting == 0 ? 0 : random.below(6000));
  r.prefill_tokens = random.below(3) == 0 ? 0 : random.below(100'000);
  r.prefill_pairs = static_cast<double>(random.below(1'000'000'000));
  r.step_tokens = static_cast<std::uint32_t>(random.below(2048));
  r.pace.knows_prompts = random.below(4) != 0;
  for (auto* const one : {&r.pace.step, &r.pace.token, &r.pace.pair, &r.pace.decode, &r.pace.block, &r.pace.place})
    *one = random.below(4) == 0 ? 0 : static_cast<double>(random.below(1'000'000'000)) / 1000;
  return r;
}

} // namespace godwit::protocols
