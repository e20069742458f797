#pragma once

#include "main/device_choice.hpp"
#include "main/settings.hpp"

#include <godwit/gpu/cuda/cuda_probe.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace godwit::main {

/// How fast KV moves, in bytes per second.
struct copy_rates {
  double blocks = 0; ///< whole blocks, within an instance's pool
  double link = 0;   ///< from one instance to another
  double host = 0;   ///< to the host's memory or back, whichever is slower
  std::string about; ///< what the link stands for, in words
};

/// What a profile is measured on: it makes instances' executors as a server does. One thread.
class profiled_device {
public:
  virtual ~profiled_device() = default;
  /// Ends a profile's name: "cpu", "nvidia-h100-80gb-hbm3".
  [[nodiscard]] virtual std::string short_name() const = 0;
  /// Of one instance more; the first one loads the model. Throws what goes wrong.
  [[nodiscard]] virtual std::shared_ptr<gpu::executor> make_executor() = 0;
  /// Ends `last`, which no step runs on, and makes no executor after that. Throws std::runtime_error.
  [[nodiscard]] virtual copy_rates measure_copies(std::shared_ptr<gpu::executor> last) = 0;
};

/// This machine's processors, which instances share as those of a server with these settings do.
[[nodiscard]] std::unique_ptr<profiled_device> profile_cpu(gpu::model::model_directory model,
                                                           const serve_settings& settings);
/// Likewise GPUs. `gpus` is not null.
[[nodiscard]] std::unique_ptr<profiled_device> profile_gpus(chosen_device gpus, gpu::model::model_directory model,
                                                            const serve_settings& settings,
                                                            const runtime::log::logger& log);

/// Of a GPU, by copies of so many bytes. `shared`: instances share it, so that KV moves within its memory; otherwise
/// each has its own, and KV takes the way through page-locked memory, at the slower one of its two rates.
[[nodiscard]] copy_rates measure_device_copies(gpu::cuda::cuda_probe& on, std::uint64_t bytes, bool shared);

} // namespace godwit::main
