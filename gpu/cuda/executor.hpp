#pragma once

#include "cuda/device_model.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <chrono>
#include <memory>
#include <vector>

namespace godwit::gpu::cuda {

/// As cuda_backend::make_executor. `small_pieces`: of what is swapped out and in.
[[nodiscard]] std::unique_ptr<executor>
make_device_executor(const std::vector<std::shared_ptr<const device_model>>& parts,
                     const cuda_executor_settings& settings, std::chrono::nanoseconds wait_max,
                     copy_by small_pieces = copy_by::kernel);

/// As cuda_backend::time_graphs.
[[nodiscard]] double time_graphs(executor& of, std::uint32_t launches);

} // namespace godwit::gpu::cuda
