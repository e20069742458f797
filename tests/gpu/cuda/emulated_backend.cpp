#include "cuda/backend.hpp"
#include "cuda/emulated/emulated_driver.hpp"
#include "gpu/cuda/cuda_support.hpp"

namespace godwit::gpu::cuda::testing {

backend_under_test find_backend() { return {make_backend({emulated::make_emulated_driver()}), {}}; }

} // namespace godwit::gpu::cuda::testing
