#pragma once

#include "cuda/driver.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cuda {

/// Over devices of whichever kind of driver. `skipped`: a line for each that cannot be used.
[[nodiscard]] std::shared_ptr<cuda_backend> make_backend(std::vector<std::shared_ptr<driver>> devices,
                                                         std::vector<std::string> skipped = {},
                                                         copy_by small_pieces = copy_by::kernel);

} // namespace godwit::gpu::cuda
