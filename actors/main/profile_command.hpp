#pragma once

#include "main/command.hpp"
#include "main/device_choice.hpp"

#include <godwit/gpu/model/rounding.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace godwit::main {

/// godwit profile [MODEL_DIR] [--device NAME] [--output FILE] [--quick] [--json], godwit profile --list
void add_profile_command(CLI::App& app, command_result& result);

struct profile_options {
  std::string model = "default"; ///< a directory, or "default" for the embedded model
  device_choice device = device_choice::automatic;
  bool deterministic = false;          ///< a server's instances.deterministic
  std::uint32_t threads = 0;           ///< of the CPU; 0: as many as this process may use, divided among the instances
  std::uint32_t instances = 1;         ///< of this machine: the others run while one is measured
  std::uint32_t step_tokens_max = 512; ///< the longest step that is measured
  std::uint32_t sequences_max = 256;   ///< that decode in a step that is measured; a server's llumlet.sequences_max
  gpu::model::rounding quantization = gpu::model::rounding::none; ///< of the weights
  std::uint32_t context_max = 0; ///< the longest sequence that is measured; 0: the model's
  float temperature = 1.0F;      ///< that tokens are drawn with; 0: greedy
  std::chrono::milliseconds time_max{45'000};
  std::string name;   ///< of the profile; empty: MODEL-DEVICE
  std::string output; ///< a file for the profile; empty: none
  bool json = false;
};

/// Finds this machine's GPUs: choose_device.
using device_finder =
    std::function<protocols::expected<chosen_device, start_error>(serve_settings&, const runtime::log::logger&)>;

/// Measures a model on this machine's processors or GPUs, first its steps alone, then as they are served, and writes
/// its device profile.
/// 0: done; 1: the model cannot be opened or run, the device cannot be used, the file cannot be written; 2: an option
/// is wrong.
[[nodiscard]] int measure_profile(const profile_options& options, std::ostream& out, std::ostream& errors,
                                  const device_finder& find = choose_device);
/// The profiles that are compiled in, and what their devices do.
void list_profiles(std::ostream& out);

} // namespace godwit::main
