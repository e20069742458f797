#pragma once

#include "main/profile_fit.hpp"
#include "main/serving.hpp"

#include <godwit/gpu/model/model_directory.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace godwit::main {

/// What is served to watch steps.
struct served_load {
  std::uint32_t instances = 1;
  std::uint32_t threads = 1;           ///< of each, on the CPU; 0: as a server has them
  std::uint32_t step_tokens_max = 512; ///< llumlet.step_tokens_max
  std::uint32_t sequences_max = 256;   ///< llumlet.sequences_max
  std::uint32_t context_max = 0;       ///< the longest sequence; 0: the model's
  float temperature = 1.0F;            ///< that tokens are drawn with; 0: greedy
  std::chrono::nanoseconds time{0};    ///< to serve, about; a dozen requests at least
  chosen_device cuda;                  ///< where the model runs; null: on the CPU
  bool deterministic = false;          ///< instances.deterministic
};

/// Serves random requests over HTTP to a client in this process, as `godwit serve` and `godwit bench` do, and writes
/// down how long each step took and the pause before the next. They arrive at random, at 60 % of the rate that the
/// device carries by `device`; prompts are up to 512 tokens long, answers up to 64, and neither longer than half and a
/// quarter of the context. The first tenth of each instance's steps is left out. By instance, steps in their order.
///
/// `behind` may change the devices that are watched. Throws std::runtime_error where serving fails.
[[nodiscard]] std::vector<std::vector<served_step>> serve_and_watch(const gpu::model::model_directory& model,
                                                                    const served_load& load,
                                                                    const gpu::sim::latency_model& device,
                                                                    const device_watch& behind = {});

/// The rate, in requests/s, that one instance carries whose requests have such lengths, by the model of its device.
[[nodiscard]] double carried_rate(const gpu::sim::latency_model& device, std::uint32_t prompt_tokens,
                                  std::uint32_t answer_tokens, std::uint32_t sequences);

} // namespace godwit::main
