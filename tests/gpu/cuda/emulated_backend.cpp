#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "gpu/cuda/cuda_support.hpp"

#include <vector>

namespace godwit::gpu::cuda::testing {

backend_under_test find_backend(std::uint32_t devices) {
  return {make_backend(emulated::make_emulated_drivers(std::vector<emulated::emulated_settings>(devices))), {}};
}

} // namespace godwit::gpu::cuda::testing
