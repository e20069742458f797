#pragma once

#include <godwit/protocols/batching/queue_summary.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/pace.hpp>
#include <godwit/protocols/messages/role.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

namespace godwit::protocols {

/// The last dispatch of a front end that reached an instance.
struct home_dispatches {
  std::uint16_t home = 0;
  std::uint64_t number = 0;

  home_dispatches() = default;
  home_dispatches(std::uint16_t from, std::uint64_t last) noexcept : home(from), number(last) {}
  friend bool operator==(const home_dispatches&, const home_dispatches&) = default;
  auto fields() { return std::tie(home, number); }
};

/// What a llumlet tells the global scheduler about its instance. Gauges unless named `total`, which count up over one
/// generation.
struct load_report {
  instance_id instance;
  std::uint64_t generation = 0; ///< raised when the instance's actors are restarted; its KV and requests are gone then
  std::uint64_t sequence = 0;   ///< counts the reports of one generation; an older one is dropped
  bool ready = false;           ///< takes requests, unless it is terminating
  bool terminating = false;     ///< drains: takes none, and wants those that it has to leave
  instance_role role = instance_role::mixed;
  std::uint32_t blocks_total = 0;
  std::uint32_t blocks_used = 0;   ///< referenced by requests (or transfers), those on their way out aside
  std::uint32_t blocks_cached = 0; ///< reusable at once, but may still give a prefix hit
  std::uint32_t waiting = 0;       ///< requests
  std::uint32_t waiting_max = 0;   ///< places in the queue; 0: not bounded
  std::uint32_t running = 0;       ///< requests in the batch
  std::uint32_t running_max = 0;
  std::uint32_t decoding = 0;    ///< of those that run, those that have their prompt
  std::uint32_t places_kept = 0; ///< of the batch, for requests that come, and for those that leave and may yet stay
  std::uint32_t migrating = 0;   ///< requests out of queue and batch that still hold their blocks here
  /// Virtual usage of what is not in the pool yet: what its head of line demands, and what the prompts of running
  /// requests still lack. With it freeness is at most 0 wherever somebody waits and cannot start. Not only there:
  /// headroom may do it alone, and a head of line that fits exactly, or finds its prefix, starts all the same.
  std::uint32_t queued_blocks = 0;
  std::uint32_t outstanding_blocks = 0; ///< of `queued_blocks`, what running requests lack
  std::uint32_t waiting_blocks = 0;     ///< what all that wait need to start, the head of line included
  std::uint32_t headroom_blocks = 0;    ///< virtual usage of execution priorities: what is kept free for them
  std::uint32_t headroom_profiled = 0;  ///< what `auto` headroom means on this instance, kept or not
  std::uint32_t execution_levels = 0;   ///< bit i: requests of level i run (of level 31 or higher: bit 31)
  /// Tokens of prompts, and of what is computed anew, that are to be computed before all that run or wait decode; of
  /// those that wait as much as prefix caching leaves of such requests. And attention_pairs of these.
  std::uint64_t prefill_tokens = 0;
  double prefill_pairs = 0;
  queue_rule order;              ///< by which they wait
  std::vector<queue_part> queue; ///< those that wait, the next to start first (queue_summary); counted in the last two
  std::uint32_t step_tokens = 0; ///< that a step may have
  step_pace pace;
  /// Instances of the same kind can take over each other's KV. One without a way to move blocks has a kind of its own.
  std::uint64_t kv_kind = 0;
  /// Number of the last dispatch of the head's front end that reached the instance: the report counts those up to it,
  /// and none after it. All bits set: it does not say, and is taken to count all.
  std::uint64_t dispatched = ~std::uint64_t{0};
  std::vector<home_dispatches> dispatched_elsewhere; ///< the same of other front ends, by home; absent: none came
  /// Of the dispatches up to that, those that it does not count yet: they wait for an adapter, or for the KV store's
  /// word. Ascending.
  std::vector<std::uint64_t> held_back;
  static constexpr std::size_t held_back_max = 64;
  std::uint32_t swap_blocks = 0;      ///< that the swap space has room for
  std::uint32_t swap_blocks_used = 0; ///< of these, in use
  std::uint32_t swapped = 0;          ///< requests that wait and have KV there, or on its way there
  std::uint64_t steps_total = 0;
  std::uint64_t preemptions_total = 0;
  std::uint64_t swaps_total = 0;               ///< of these, those whose KV went to the swap space
  std::uint64_t swapped_out_tokens_total = 0;  ///< that got there
  std::uint64_t swapped_in_tokens_total = 0;   ///< that came back from there
  std::uint64_t prefix_query_tokens_total = 0; ///< prompt tokens looked up in the prefix cache
  std::uint64_t prefix_hit_tokens_total = 0;   ///< of these, found
  std::uint64_t store_query_tokens_total = 0;  ///< tokens that the prefix cache lacked, looked up in the KV store
  std::uint64_t store_hit_tokens_total = 0;    ///< of these, loaded from it
  std::uint64_t prompt_tokens_total = 0;       ///< prefilled, recomputation included
  std::uint64_t prompt_ns_total = 0;           ///< that these took, beyond what those who decoded beside them did
  std::uint64_t generated_tokens_total = 0;
  std::uint64_t drafts_total = 0;                ///< requests in steps that speculated
  std::uint64_t draft_tokens_total = 0;          ///< that were guessed
  std::uint64_t accepted_tokens_total = 0;       ///< of these, drawn by the model, too
  std::uint64_t model_draft_tokens_total = 0;    ///< of those that were guessed, by the draft model
  std::uint64_t model_accepted_tokens_total = 0; ///< of these, drawn by the model, too
  std::uint64_t drafting_ns_total = 0;           ///< that the draft model took, in steps without drafts, too

  load_report() = default;
  load_report(instance_id id, std::uint64_t instance_generation, std::uint64_t report_sequence, bool is_ready)
      : instance(id), generation(instance_generation), sequence(report_sequence), ready(is_ready) {}
  [[nodiscard]] bool takes_requests() const noexcept { return ready && !terminating; }
  /// Of those of this home.
  [[nodiscard]] std::uint64_t dispatched_of(std::uint16_t home) const noexcept {
    if (home == 0 || dispatched == ~std::uint64_t{0}) return dispatched;
    for (const auto& [from, number] : dispatched_elsewhere)
      if (from == home) return number;
    return 0;
  }
  [[nodiscard]] std::uint64_t places_taken() const noexcept { return std::uint64_t{running} + places_kept; }
  friend bool operator==(const load_report&, const load_report&) = default;
  auto fields() {
    return std::tie(
        instance, generation, sequence, ready, terminating, role, blocks_total, blocks_used, blocks_cached, waiting,
        waiting_max, running, running_max, decoding, places_kept, migrating, queued_blocks, outstanding_blocks,
        waiting_blocks, headroom_blocks, headroom_profiled, execution_levels, prefill_tokens, prefill_pairs, order,
        queue, step_tokens, pace, kv_kind, dispatched, dispatched_elsewhere, held_back, swap_blocks, swap_blocks_used,
        swapped, steps_total, preemptions_total, swaps_total, swapped_out_tokens_total, swapped_in_tokens_total,
        prefix_query_tokens_total, prefix_hit_tokens_total, store_query_tokens_total, store_hit_tokens_total,
        prompt_tokens_total, prompt_ns_total, generated_tokens_total, drafts_total, draft_tokens_total,
        accepted_tokens_total, model_draft_tokens_total, model_accepted_tokens_total, drafting_ns_total);
  }
};

} // namespace godwit::protocols
