#include "gpu/cuda/cuda_support.hpp"

#include <godwit/gpu/cuda/cuda_plugin.hpp>

#include <filesystem>

namespace godwit::gpu::cuda::testing {

backend_under_test find_backend() {
  // Once for all tests: a GPU is not started again and again.
  static const auto loaded = load_cuda({std::filesystem::read_symlink("/proc/self/exe").parent_path() / plugin_name});
  return {loaded.backend, loaded.why_not};
}

} // namespace godwit::gpu::cuda::testing
