// A shared library in the place of the CUDA plug-in: of this build and without a GPU, of another build, or speaking
// another version of the interface, as FAKE says.
#include "cuda/plugin_entry.hpp"

#include <stdexcept>

extern "C" const godwit::gpu::cuda::plugin_entry* godwit_cuda_plugin() {
  using namespace godwit::gpu::cuda;
  static const std::string build = FAKE == 2 ? "godwit 0.0.1, compiler of another time" : build_in_words();
  static const plugin_entry entry{FAKE == 3 ? 77U : plugin_abi, build.c_str(),
                                  [](const cuda_options&) -> std::shared_ptr<cuda_backend> {
                                    throw std::runtime_error("no GPU: made for a test");
                                  }};
  return &entry;
}
