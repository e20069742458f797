#pragma once

#include <godwit/protocols/batching/batch_former.hpp>
#include <godwit/protocols/batching/queue_order.hpp>
#include <godwit/protocols/batching/speculation.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/policy/headroom.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::protocols {

enum class batching_mode : std::uint8_t {
  continuous, ///< requests join and leave between steps (Orca), prompts in chunks beside the decodes (Sarathi)
  /// They join and leave between steps, but a step computes prompts or decodes, and prompts come first: what engines
  /// did before chunks (vLLM's first scheduler, which Llumnix was measured with); a baseline.
  prefill_first,
  static_batch ///< a batch runs to the end of its last request before the next is formed: the oldest baseline
};

/// What becomes of the KV of a request that loses its blocks to others (AdaptiveLLM, spec adaptivellm.md).
enum class preemption_mode : std::uint8_t {
  recompute, ///< it is forgotten, and computed again from prompt and answer
  swap,      ///< it goes to the host's memory, where there is room, and comes back from there
  adaptive   ///< whichever is expected to take less, request by request
};

/// How one instance forms its steps.
struct planner_settings {
  batching_mode mode = batching_mode::continuous;
  std::uint32_t blocks = 0;            ///< in the KV pool
  std::uint32_t context_length = 0;    ///< tokens of prompt and answer together
  std::uint32_t step_tokens_max = 512; ///< the token budget of a step; at least running_max
  std::uint32_t steps_max = 1;         ///< in flight at once
  std::uint32_t running_max = 64;      ///< requests in the batch
  std::uint32_t waiting_max = 256;     ///< requests in the queue
  queue_rule queue;
  batch_rule batch; ///< of static batches
  bool prefix_caching = true;
  speculation_settings speculation;
  /// There is a KV store: what is computed is told for it (step_effects::computed). Without prefix caching there is
  /// none.
  bool store = false;
  std::uint32_t load_min = 1; ///< tokens that a request has to gain for its KV to be loaded from the store
  preemption_mode preemption = preemption_mode::adaptive;
  std::uint32_t swap_slots = 0; ///< blocks that the host's memory has room for; 0: all is recomputed
  std::uint32_t vocabulary = 0; ///< token ids lie below; 0: not checked
  std::vector<token_id> eos;    ///< the model's end-of-sequence tokens

  /// Execution priorities, by the index that requests name. Only what the reports say of headroom follows from them.
  std::vector<execution_level> execution_levels{{"normal", 0}};
  std::uint32_t headroom_profiled = 0; ///< blocks that stand for `auto`

  /// What is wrong with them, in one line; empty when they can be used.
  [[nodiscard]] std::string validate() const;
};

} // namespace godwit::protocols
