#pragma once

#include <godwit/gpu/cuda/cuda_plugin.hpp>

#include <filesystem>

namespace godwit::gpu::cuda {

/// Loads one plug-in, checks that it is of this build and has it look for GPUs. Whether NVIDIA's driver is there is not
/// asked before: for load_cuda and tests.
[[nodiscard]] loaded_backend open_plugin(const std::filesystem::path& file, const cuda_options& options);

} // namespace godwit::gpu::cuda
