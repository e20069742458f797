#pragma once

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace godwit::gpu::cuda {

/// What the plug-in's one C function returns. The first two fields never change their places.
struct plugin_entry {
  std::uint32_t abi;
  const char* build; ///< as build_in_words()
  /// Throws std::runtime_error with one line when there is no GPU.
  std::shared_ptr<cuda_backend> (*make)(const cuda_options& options);
};

inline constexpr std::uint32_t plugin_abi = 1;
inline constexpr const char* plugin_function = "godwit_cuda_plugin";
using plugin_function_type = const plugin_entry*();

/// Equal in two files whose objects may meet: version, compiler, and the headers of what crosses the border
/// (GODWIT_CUDA_INTERFACE: gpu/CMakeLists.txt makes it of their text).
[[nodiscard]] inline std::string build_in_words() {
  return std::string("godwit ") + GODWIT_VERSION + ", interface " + GODWIT_CUDA_INTERFACE + ", compiler " + __VERSION__;
}

} // namespace godwit::gpu::cuda
