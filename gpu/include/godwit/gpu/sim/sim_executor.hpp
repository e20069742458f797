#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/runtime/async/timer_source.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace godwit::gpu::sim {

/// How long a step takes: base + prefill tokens + decoding sequences + KV read, spread evenly over the layers.
struct latency_model {
  double base_us = 2000;
  double per_prefill_token_us = 30;
  double per_decode_us = 50;    ///< for each sequence that decodes
  double per_kv_token_us = 0.2; ///< for each token that attention reads
  [[nodiscard]] std::chrono::nanoseconds step_time(const protocols::step_input& input) const;
};

/// What the simulated model says.
struct sim_model {
  /// Drawn, if there is one, with the given probability; 0: answers end at max_tokens.
  std::vector<protocols::token_id> eos;
  double eos_share = 0;
};

/// The sibling of the real executors for simulations: takes the time that a latency model says on a timer, and computes
/// nothing.
///
/// Its tokens still are what a model's would be: a function of the request's tokens so far, its seed and the index, and
/// of nothing else. They come out of a simulated KV pool (for each slot a hash of all tokens up to it), so whoever
/// mixes up blocks gets other answers. K of layer 0 of a block is those hashes, so that KV can be moved; all other
/// regions are empty. `timers` must outlive the executor and call on the thread that uses it, as a simulated world
/// does.
[[nodiscard]] std::unique_ptr<executor> make_sim_executor(executor_info info, latency_model latency,
                                                          runtime::async::timer_source& timers, sim_model model = {});

} // namespace godwit::gpu::sim
