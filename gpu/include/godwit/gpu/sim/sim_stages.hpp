#pragma once

#include <godwit/gpu/pipeline.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace godwit::gpu::sim {

/// A device that has this share of a model's layers, and computes the logits or not.
[[nodiscard]] latency_model share_of(const latency_model& whole, double share, bool logits);

/// Puts something around a stage's device, for faults.
using wrap_stage = std::function<std::shared_ptr<executor>(std::uint32_t stage, std::shared_ptr<executor>)>;

/// What is not as it is with one device.
struct sim_stage_settings {
  wrap_stage wrap = {};
  /// Of the stages' devices, beside that of the latency model; empty: all have it.
  std::vector<double> speeds = {};
  /// What it takes layers to get from stage to stage, however many. On CPUs, where all devices reach all memory,
  /// nothing.
  std::chrono::nanoseconds move_time{0};
};

/// A simulated replica whose layers lie on several devices. A step takes each the share of `latency` that its layers
/// are of the model's; the last one has the tokens and the logits' time. To others its KV looks as that of one device.
/// What copies take of steps (sim_model::copies) is taken from the last stage, all of it: of each an even share would
/// be, which is as much in the mean.
/// Errors: std::invalid_argument where the stages do not have the model's layers, or the speeds are not theirs.
[[nodiscard]] std::unique_ptr<executor> make_sim_stages(const executor_info& info, const latency_model& latency,
                                                        runtime::async::timer_source& timers, const sim_model& model,
                                                        std::span<const pipeline::stage> stages,
                                                        const sim_stage_settings& settings = {});

} // namespace godwit::gpu::sim
