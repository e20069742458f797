#pragma once

#include <godwit/gpu/adapters.hpp>
#include <godwit/gpu/swap_space.hpp>
#include <godwit/protocols/batching/step.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/memory_region.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::pipeline {
class layer_division;
}

namespace godwit::gpu {

/// Called once, on a thread of the device (or on the simulated clock); must only post a message. Empty string: success,
/// otherwise what went wrong, in one line.
using completion = std::function<void(std::string error)>;

struct executor_info {
  std::string device; ///< for logs and status: "cpu (2 threads, amx)"
  std::uint32_t layers = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t positions_max = 0; ///< the model's context length, in tokens
  std::uint32_t blocks = 0;        ///< KV blocks in the pool
  std::uint64_t block_bytes = 0;   ///< one block, K and V, all layers, those of a draft model included
  std::uint64_t weight_bytes = 0;
  std::vector<protocols::token_id> eos; ///< the model's end-of-sequence tokens; empty: answers end by length only
  std::string kv_layout; ///< of a block, in words; equal where the bytes of one's blocks mean the same to the other
};

/// One step in flight. Not thread-safe; one caller, who gets completions.
///
/// A step is run layer by layer: `advance(n, done)` enqueues the layers up to n (exclusive) and returns at once; `done`
/// tells that they have run. Between two calls the caller may act: send KV of finished layers, wait for KV to arrive,
/// cancel. `advance(layers())` also does the final norm, the logits and the sampling; `take()` is valid after its
/// completion.
///
/// Destroying a forward tells nothing more, and waits until nothing of it runs any more. A device that may hang bounds
/// that by a patience of seconds: what has not ended then runs on, the device holds all memory that it uses until it
/// has, whoever else lets go of it, and the executor is dead: `begin` throws.
class forward {
public:
  virtual ~forward() = default;
  [[nodiscard]] virtual std::uint32_t layers() const noexcept = 0;
  virtual void advance(std::uint32_t upto, completion done) = 0;
  [[nodiscard]] virtual protocols::step_output take() = 0;
};

/// A model replica on a device: weights, paged KV pool, steps.
/// The device owns its threads; nothing here computes on the caller's. Destroying it gives its memory back, or, where
/// the device hangs, leaves that to a thread after the patience of a forward.
class executor {
public:
  virtual ~executor() = default;
  [[nodiscard]] virtual const executor_info& info() const noexcept = 0;
  /// Checks the input (positions, blocks within the pool, token ids) and throws std::invalid_argument on a caller's
  /// bug, another std::runtime_error where the device is broken or a step before did not end. At most one forward lives
  /// at a time.
  [[nodiscard]] virtual std::unique_ptr<forward> begin(protocols::step_input input) = 0;
  /// K or V of one layer of one block; contiguous. Empty where a device has no such memory.
  [[nodiscard]] virtual protocols::memory_region key_region(std::uint32_t layer, protocols::block_id block) = 0;
  [[nodiscard]] virtual protocols::memory_region value_region(std::uint32_t layer, protocols::block_id block) = 0;
  /// The devices of a replica that is divided among several (gpu/tensor_parallel.hpp), in the order of their heads. A
  /// step then runs on every one of them at once, with the same input; rank 0 has the output. KV is asked of them, too.
  /// Empty: one device, this executor.
  [[nodiscard]] virtual std::span<const std::shared_ptr<executor>> shards() const noexcept { return {}; }
  /// The devices of a replica that each have some of its layers (gpu/pipeline.hpp), in their order; of a part of a step
  /// each one's end begins the next one's. The last one has the output. Empty: no such replica.
  [[nodiscard]] virtual std::span<const std::shared_ptr<executor>> stages() const noexcept { return {}; }
  /// Which layers each of its stages has, where they can move from one to another while it runs. Null: they stay.
  [[nodiscard]] virtual std::shared_ptr<pipeline::layer_division> division() const { return nullptr; }
  /// The adapters that its steps may name, while somebody holds them; others share the store. Null: it knows none.
  [[nodiscard]] virtual std::shared_ptr<adapter_store> adapters() const { return nullptr; }
  /// Where KV of its pool may wait in the host's memory; it uses the pool, and holds it while a copy is under way,
  /// which may be longer than it lives itself. Null: there is no such memory.
  [[nodiscard]] virtual std::shared_ptr<swap_space> swap() const { return nullptr; }
  /// A smaller model that guesses what this one will say (gpu/drafted_executor.hpp). Its pool
  /// has the same blocks, and whoever runs a step here runs it there before (protocols/batching/drafting.hpp). Of a
  /// block's KV it has layers of its own, behind this one's. Null: there is none.
  [[nodiscard]] virtual std::shared_ptr<executor> draft() const { return nullptr; }
};

} // namespace godwit::gpu
