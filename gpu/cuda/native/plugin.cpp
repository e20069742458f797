#include "cuda/backend.hpp"
#include "cuda/native/native_driver.hpp"
#include "cuda/plugin_entry.hpp"

#include <utility>

extern "C" __attribute__((visibility("default"))) const godwit::gpu::cuda::plugin_entry* godwit_cuda_plugin() {
  using namespace godwit::gpu::cuda;
  static const std::string build = build_in_words();
  static const plugin_entry entry{plugin_abi, build.c_str(), [](const cuda_options& options) {
                                    auto found = native::find_devices(options);
                                    return make_backend(std::move(found.drivers), std::move(found.skipped),
                                                        options.small_pieces);
                                  }};
  return &entry;
}
