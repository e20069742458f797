#include "gpu/cuda/cuda_support.hpp"

#include <godwit/gpu/cuda/cuda_plugin.hpp>

#include <filesystem>
#include <string>

namespace godwit::gpu::cuda::testing {

backend_under_test find_backend(std::uint32_t devices) {
  // Once for all tests: a GPU is not started again and again. It is never ended, for libraries of CUDA's may be gone
  // when static objects go.
  static const auto& loaded =
      *new auto(load_cuda({std::filesystem::read_symlink("/proc/self/exe").parent_path() / plugin_name}));
  const auto there = loaded.backend ? loaded.backend->devices().size() : 0;
  if (loaded.backend && there < devices)
    return {nullptr, "this takes " + std::to_string(devices) + " GPUs; this machine has " + std::to_string(there)};
  return {loaded.backend, loaded.why_not};
}

} // namespace godwit::gpu::cuda::testing
