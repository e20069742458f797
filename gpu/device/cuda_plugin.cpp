#include "device/cuda_plugin.hpp"

#include "cuda/plugin_entry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

loaded_backend refused(std::string why) { return {nullptr, std::move(why), false}; }

std::string last_error() {
  const char* line = dlerror();
  return line != nullptr ? line : "unknown error";
}

} // namespace

loaded_backend open_plugin(const std::filesystem::path& file, const cuda_options& options) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refused("the CUDA plug-in cannot be loaded: " + last_error());
  auto* function = reinterpret_cast<plugin_function_type*>(dlsym(library, plugin_function));
  if (function == nullptr) return refused(file.string() + " is no CUDA plug-in of godwit: " + last_error());
  const auto* entry = function();
  if (entry->abi != plugin_abi)
    return refused(file.string() + " speaks version " + std::to_string(entry->abi) + " of the plug-in's interface, " +
                   "this program version " + std::to_string(plugin_abi) + "; install both from one build");
  if (build_in_words() != entry->build)
    return refused(file.string() + " is of another build (" + entry->build + ") than this program (" +
                   build_in_words() + "); install both from one build");
  try {
    return {entry->make(options), {}, false};
  } catch (const std::exception& failure) {
    return refused(failure.what());
  }
}

loaded_backend load_cuda(const std::vector<std::filesystem::path>& files, const cuda_options& options) {
  const auto found = std::ranges::find_if(files, [](const auto& file) {
    std::error_code ignored;
    return std::filesystem::exists(file, ignored);
  });
  if (found == files.end()) {
    std::string places;
    for (const auto& file : files) places += (places.empty() ? "" : ", ") + file.string();
    return {nullptr, "there is no CUDA plug-in (looked for " + places + ")", true};
  }
  // Before the plug-in, whose libraries are large, and which would say the same in many more words.
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr)
    return refused("no GPU: NVIDIA's driver is not installed (" + last_error() + ")");
  return open_plugin(*found, options);
}

} // namespace godwit::gpu::cuda
