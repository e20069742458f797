#pragma once

#include "main/profile_fit.hpp"

#include <godwit/gpu/executor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace godwit::main {

/// How large the steps are that are measured.
struct measured_sizes {
  std::uint32_t step_tokens_max = 512;
  std::uint32_t sequences_max = 256;
  std::uint32_t positions_max = 2048; ///< longest sequence
  std::uint32_t blocks = 1;           ///< of the KV pool
};

/// The steps to measure, none of them beyond the sizes: a few dozen.
[[nodiscard]] std::vector<step_sample> steps_to_measure(const measured_sizes& sizes);

struct measured_steps {
  std::vector<step_sample> samples; ///< those that fitted into the time, with their medians
  std::size_t left_out = 0;         ///< steps that would have taken too long
  std::uint32_t rounds = 0;         ///< times that each was measured
};

/// Runs one step. From its begin to its completion, by the clock of the thread that completes it. Throws
/// std::runtime_error where it fails.
[[nodiscard]] double run_step_us(gpu::executor& on, protocols::step_input input);

/// Runs the steps on an executor, interleaved: every round runs each twice and times the second run (when
/// serving, steps follow others like them, which leave caches as they need them), so that whatever else the machine
/// does meanwhile falls on all alike. Tokens are drawn at this temperature. Ends after `time_max` or 200 rounds, but
/// not before 3; steps that would take longer than `step_time_max` are left out. Throws std::runtime_error where a step
/// fails.
[[nodiscard]] measured_steps measure_steps(gpu::executor& on, std::vector<step_sample> steps,
                                           std::chrono::nanoseconds time_max, std::chrono::nanoseconds step_time_max,
                                           float temperature = 1.0F);

/// Bytes per second of copying whole KV blocks (all layers) within a pool in the host's memory: median of several
/// copies.
[[nodiscard]] double measure_block_copies(gpu::executor& on);

} // namespace godwit::main
