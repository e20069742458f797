#pragma once

#include "cuda/driver.hpp"

#include <string>

namespace godwit::gpu::cuda {

/// "the KV cache takes 12.0 GiB; NVIDIA H100 has 3.1 GiB free of 79.6 GiB"
[[nodiscard]] std::string does_not_fit(const std::string& device, const std::string& purpose, std::uint64_t bytes,
                                       memory_state memory);

} // namespace godwit::gpu::cuda
