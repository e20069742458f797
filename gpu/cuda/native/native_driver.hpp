#pragma once

#include "cuda/driver.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cuda::native {

struct found_devices {
  std::vector<std::shared_ptr<driver>> drivers; ///< at least one, unless none is to be started
  std::vector<std::string> skipped;             ///< a line for each GPU that cannot be used
};

/// One for each GPU of this machine that our kernels run on, as many as are to be started. Throws driver_error where
/// there is none, saying why.
[[nodiscard]] found_devices find_devices(const cuda_options& options);

} // namespace godwit::gpu::cuda::native
