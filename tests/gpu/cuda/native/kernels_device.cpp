#include <cuda_runtime_api.h>

#include <gtest/gtest.h>

#include <cstdlib>

// The tests of kernels, on a GPU instead of the emulator.

namespace {

/// Skips tests where there is no GPU, with a reason.
class asks_for_a_gpu final : public ::testing::EmptyTestEventListener {
public:
  void OnTestStart(const ::testing::TestInfo&) override {
    int count = 0;
    const auto status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) GTEST_SKIP() << "no GPU: " << cudaGetErrorString(status);
    if (count == 0) GTEST_SKIP() << "no GPU: the driver knows none";
  }
};

// Tests look at a kernel's results as soon as it is launched.
[[maybe_unused]] const bool waits = ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1) == 0;
[[maybe_unused]] const bool asks = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new asks_for_a_gpu);
  return true;
}();

} // namespace
