#pragma once

#include <godwit/gpu/collective.hpp>
#include <godwit/gpu/cpu/cpu_adapters.hpp>
#include <godwit/gpu/cpu/isa.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/model/tokenizer.hpp>
#include <godwit/gpu/pipeline.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace godwit::gpu::cpu {

enum class kv_precision : std::uint8_t {
  automatic, ///< bf16 for bf16 weights, f32 for others
  bf16,
  f32,
  fp8 ///< e4m3 without scales: half of bf16's bytes; numbers beyond 448 are that
};

/// The logits of one row, before they are drawn from. Valid during the call.
struct logits_row {
  std::uint64_t step = 0;
  std::uint32_t slice = 0;    ///< index in the step's slices
  std::uint32_t position = 0; ///< of the token that was fed in
  std::span<const float> values;
};

/// Draws a token; may change the logits in place.
using draw_function = std::function<protocols::sampled_token(std::span<float>, const protocols::step_slice&)>;

struct cpu_executor_settings {
  /// Threads that compute. 0: as many as this process may use.
  std::uint32_t threads = 0;
  /// KV blocks in the pool (16 tokens each). 0: from `kv_bytes`.
  std::uint32_t blocks = 0;
  /// Size of the KV pool, if `blocks` is 0. 0: room for 8 requests of the model's full length, but at most a quarter of
  /// the available memory.
  std::uint64_t kv_bytes = 0;
  /// Bytes beside each block in another pool (a draft model's), which the size of the pool is that of, too.
  std::uint64_t beside_block = 0;
  /// Of the host's memory, for KV that waits outside of the pool; of all devices of an executor together. 0: none.
  std::uint64_t swap_bytes = 0;
  kv_precision kv = kv_precision::automatic;
  /// Absent: the best that this machine has.
  std::optional<cpu::isa> isa = {};
  /// Makes the function that draws tokens, one for each thread. Empty: model::sampler.
  std::function<draw_function()> make_sampler = {};
  /// Sees all logits that are computed, on a thread of the device. For tests and tools.
  std::function<void(const logits_row&)> logits_tap = {};
  /// Compute logits for every row instead of only those that sample.
  bool logits_of_all_rows = false;
  /// The model's vocabulary: answers can be kept within a schema (sampling_params::json_schema). Without it such a
  /// request ends with an error. Not used with `make_sampler`.
  std::shared_ptr<const model::tokenizer> tokens = {};
  /// For a model of which this device has a part: its end of the group that has the others. Not otherwise.
  std::shared_ptr<collective::communicator> group = {};
  /// For a model of which this device has some layers: where rows come from, and where they go. Null where it has the
  /// first, the last ones.
  std::shared_ptr<pipeline::stage_link> before = {}, after = {};
  /// The adapters that steps may name; null: none.
  std::shared_ptr<cpu_adapters> adapters = {};
};

/// A model replica on the CPU. It computes and answers on threads of its own, so it has no place in a simulated world,
/// whose devices are those of gpu::sim.
///
/// Numbers: a request's logits are a function of its tokens and the weights. They are bitwise the same alone or in any
/// batch, with any cut into chunks, any number of threads and any instruction set (docs/design/kernels.md). Errors
/// (std::runtime_error, one line with what to do): too little memory, an instruction set that is not there.
[[nodiscard]] std::unique_ptr<executor> make_cpu_executor(std::shared_ptr<const packed_model> model,
                                                          const cpu_executor_settings& settings);

/// One replica on as many devices as there are parts (pack_shards, pack_stages), in their order; one part: as above.
/// `settings` are those of all devices together: threads are divided among them, at least one each, and `blocks` and
/// `kv_bytes` speak of whole blocks. `wait_max`: a device that waits longer for another one ends the step.
///
/// Numbers: bitwise the same in any batch, chunk, number of threads and instruction set, for one degree; other degrees
/// round sums elsewhere (docs/design/tensor_parallel.md). Stages change nothing (docs/design/pipeline.md).
[[nodiscard]] std::unique_ptr<executor>
make_cpu_executor(const std::vector<std::shared_ptr<const packed_model>>& shards, const cpu_executor_settings& settings,
                  std::chrono::nanoseconds wait_max = std::chrono::minutes(1));

/// The same from weights that nobody else shares.
[[nodiscard]] std::unique_ptr<executor> make_cpu_executor(const model::config& config,
                                                          std::shared_ptr<const model::weights> weights,
                                                          const cpu_executor_settings& settings);

/// Logits of every position of a prompt, row-major [tokens][vocabulary], prefilled in chunks of `chunk` tokens (0: in
/// one). A tool for tests and comparisons: makes an executor of its own. `settings`: threads, kv, isa, adapters are
/// used. `adapter`: the prompt's (adapter_ref::id), which somebody holds; 0: none.
[[nodiscard]] std::vector<float> compute_logits(std::shared_ptr<const packed_model> model,
                                                std::span<const protocols::token_id> tokens,
                                                const cpu_executor_settings& settings = {}, std::uint32_t chunk = 0,
                                                std::uint64_t adapter = 0);
/// The same on several devices.
[[nodiscard]] std::vector<float> compute_logits(const std::vector<std::shared_ptr<const packed_model>>& shards,
                                                std::span<const protocols::token_id> tokens,
                                                const cpu_executor_settings& settings = {}, std::uint32_t chunk = 0,
                                                std::uint64_t adapter = 0);

} // namespace godwit::gpu::cpu
