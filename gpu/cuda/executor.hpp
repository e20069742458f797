#pragma once

#include "cuda/device_model.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <memory>

namespace godwit::gpu::cuda {

/// As cuda_backend::make_executor.
[[nodiscard]] std::unique_ptr<executor> make_device_executor(std::shared_ptr<const device_model> model,
                                                             const cuda_executor_settings& settings);

/// As cuda_backend::time_graphs.
[[nodiscard]] double time_graphs(executor& of, std::uint32_t launches);

} // namespace godwit::gpu::cuda
