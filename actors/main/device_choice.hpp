#pragma once

#include "main/instance_devices.hpp"
#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/gpu/cuda/cuda_plugin.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <cstdint>
#include <memory>

namespace godwit::main {

/// Where this process's instances run. Null: the CPU.
using chosen_device = std::shared_ptr<gpu::cuda::cuda_backend>;

/// The GPUs that were found, where instances of so many devices `each` can run there. Logs what there is, and warns of
/// `instances` too many.
[[nodiscard]] gpu::cuda::loaded_backend use_devices(std::shared_ptr<gpu::cuda::cuda_backend> found,
                                                    const instance_devices& each, std::uint32_t instances,
                                                    const runtime::log::logger& log);

/// Looks for GPUs as `settings.instances.device` says, and starts no more than the instances take; null, too, where no
/// instance runs in this process. Where there are some for `automatic`, it becomes `cuda`, so that a recording tells
/// it. An error where CUDA is asked for and cannot be used.
[[nodiscard]] protocols::expected<chosen_device, start_error> choose_device(serve_settings& settings,
                                                                            const runtime::log::logger& log);
/// The same, for a model that GPUs may not have.
[[nodiscard]] protocols::expected<chosen_device, start_error>
choose_device_for(const gpu::model::config& model, serve_settings& settings, const runtime::log::logger& log);

/// What the CUDA kernels lack for a model, as in "the CUDA kernels have no X"; empty: nothing that is known before it
/// is loaded.
[[nodiscard]] std::string lacking_on_gpus(const gpu::model::config& model);

} // namespace godwit::main
