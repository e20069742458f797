#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <memory>

namespace godwit::main {

/// Where this process's instances run. Null: the CPU.
using chosen_device = std::shared_ptr<gpu::cuda::cuda_backend>;

/// Looks for GPUs as `settings.instances.device` says; where some are found for `automatic`, it becomes `cuda`, so that
/// a recording tells it. An error where CUDA is asked for and cannot be used.
[[nodiscard]] protocols::expected<chosen_device, start_error> choose_device(serve_settings& settings,
                                                                            const runtime::log::logger& log);

} // namespace godwit::main
