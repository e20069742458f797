#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/sim/central_scheduler.hpp>
#include <godwit/gpu/sim/copy_load.hpp>
#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/gpu/sim/profile.hpp>
#include <godwit/gpu/sim/sim_adapters.hpp>
#include <godwit/gpu/sim/step_books.hpp>
#include <godwit/runtime/async/timer_source.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::sim {

/// What an executor remembers of the tokens it was fed.
enum class sim_memory : std::uint8_t {
  /// For each slot of each KV block a hash of all tokens up to it. Tokens come out of the pool, as a real model's do.
  hashes,
  /// Nothing: a token is a function of request id, seed and index only. For large simulations: a step's cost does not
  /// depend on the length of its sequences, and instances need no pool. Answers still do not depend on batch, instance
  /// or migration, but they do not show any more that blocks were mixed up, lost, copied too late or filled with other
  /// tokens, that a prompt's cached prefix is another's, or that a request goes on with other tokens than its own;
  /// block ids and tokens are not checked either.
  none
};

inline constexpr std::uint32_t sim_refrain_tokens = 24;

/// The host's memory beside a simulated device.
struct sim_swap {
  std::uint32_t slots = 0; ///< 0: there is none
  double blocks_per_second = 1000;
  std::chrono::nanoseconds overhead{0}; ///< of each copy
  /// Why a copy comes to nothing; empty: it does not. May be empty itself: none does.
  std::function<std::string()> fails = {};
};

/// What the simulated model says.
struct sim_model {
  /// Drawn, if there is one, with the given probability; 0: answers end at max_tokens.
  std::vector<protocols::token_id> eos;
  double eos_share = 0;
  /// The probability that a token is that of a text of sim_refrain_tokens tokens which all answers repeat. What prompt
  /// lookup drafts is right where both the draft's and the drawn token are.
  double refrain = 0;
  /// Of a draft model: the probability that a token is the one that the model draws which it drafts for, as far as its
  /// own KV is of the same tokens.
  double right = 1;
  sim_memory memory = sim_memory::hashes;
  /// How long a step takes, instead of what the latency model says (`usual`), which its spread still varies. Called
  /// once a step, on the thread that runs the executor; a time below 0 counts as none. May be empty.
  std::function<std::chrono::nanoseconds(const protocols::step_input& step, std::chrono::nanoseconds usual)> step_time =
      {};
  /// Of the times of its steps, where the latency model has a spread.
  std::uint64_t seed = 0;
  /// Null: copies take nothing from steps.
  std::shared_ptr<copy_load> copies;
  /// Plans the steps of all executors that share it, which stand still meanwhile. Null: plans take no time.
  std::shared_ptr<central_scheduler> central;
  /// Of all executors that share it. Null: nobody counts.
  std::shared_ptr<step_books> books;
  bool counts_steps = true; ///< in `books`; otherwise only how long the device is busy
  /// Of the process that it runs in: a step that names one which nobody holds is refused. Null: none is known.
  std::shared_ptr<sim_adapters> adapters;
  sim_swap swap;
};

/// Bytes that a block of a simulated executor has to show a fabric, whatever `executor_info::block_bytes` says: a
/// simulated link of b bytes/s behaves as one between real devices when it moves b * sim_block_bytes / block_bytes.
inline constexpr std::uint64_t sim_block_bytes = protocols::tokens_per_block * sizeof(std::uint64_t);

/// The sibling of the real executors for simulations: takes the time that a latency model says on a timer, and computes
/// nothing.
///
/// Its tokens still are what a model's would be: a function of the request's tokens so far, its adapter, how it is
/// sampled and the index, and of nothing else. They come out of a simulated KV pool (for each slot a hash of all tokens
/// up to it), so whoever mixes up blocks gets other answers. K of layer 0 of a block is those hashes, so that KV can be
/// moved; all other regions are empty. (`sim_memory::none` gives that up for speed.) `timers` must outlive the executor
/// and call on the thread that uses it, as a simulated world does.
[[nodiscard]] std::unique_ptr<executor> make_sim_executor(executor_info info, latency_model latency,
                                                          runtime::async::timer_source& timers, sim_model model = {});

/// The same, one of many that share the latency model (not null): its tables stay in the caches.
[[nodiscard]] std::unique_ptr<executor> make_sim_replica(executor_info info,
                                                         std::shared_ptr<const latency_model> latency,
                                                         runtime::async::timer_source& timers, sim_model model = {});

/// One replica on the device that a profile describes.
[[nodiscard]] std::unique_ptr<executor> make_sim_executor(const profile& device, runtime::async::timer_source& timers,
                                                          sim_model model = {});

} // namespace godwit::gpu::sim
