#include "cuda/native/errors.hpp"

namespace godwit::gpu::cuda::native {

std::string in_words(cudaError_t code) {
  return std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ")";
}

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError(); // what is not for ever is over with this report
  throw driver_error(std::string("CUDA: ") + what + ": " + in_words(code));
}

void check(cublasStatus_t code, const char* what) {
  if (code != CUBLAS_STATUS_SUCCESS)
    throw driver_error(std::string("cuBLASLt: ") + what + ": " + cublasLtGetStatusString(code));
}

} // namespace godwit::gpu::cuda::native
