#pragma once

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cuda {

/// The plug-in's file name.
inline constexpr const char* plugin_name = "libgodwit_cuda.so";

struct loaded_backend {
  std::shared_ptr<cuda_backend> backend; ///< null: CUDA cannot be used
  std::string why_not;                   ///< then: one line
  bool plugin_missing = false;           ///< there is none, as with most builds
};

/// Loads the CUDA plug-in, the first of `files` that is there, and finds the GPUs.
///
/// Problem: libcublasLt alone is 540 MB, and most machines have no GPU. So everything that needs the toolkit lies in a
/// shared library that is looked for at run time. It talks C++ with this program and must be of the same build, which
/// is checked before anything else of it is called. Once loaded it stays until the process ends.
[[nodiscard]] loaded_backend load_cuda(const std::vector<std::filesystem::path>& files,
                                       const cuda_options& options = {});

} // namespace godwit::gpu::cuda
