#pragma once

#include "cuda/driver.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>

namespace godwit::gpu::cuda::native {

/// "an illegal memory access was encountered (cudaErrorIllegalAddress)"
[[nodiscard]] std::string in_words(cudaError_t code);

/// Throws driver_error: "CUDA: a copy: an illegal memory access was encountered (cudaErrorIllegalAddress)".
void check(cudaError_t code, const char* what);
void check(cublasStatus_t code, const char* what);

} // namespace godwit::gpu::cuda::native
