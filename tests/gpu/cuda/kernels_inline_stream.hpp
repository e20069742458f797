#pragma once

#include "cuda/driver.hpp"

#if defined(GODWIT_KERNELS_NATIVE)
#include <cuda_runtime_api.h>
#endif

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace godwit::gpu::cuda::testing {

/// A stream that runs kernels at once, on the caller's thread and memory: for tests of kernels alone. On a GPU it is
/// the default stream, and launches wait (native/kernels_device.cpp).
class inline_stream final : public driver_stream {
public:
  /// For tests of what is done on smaller devices.
  void set_shared_bytes_max(std::uint32_t bytes) { shared_bytes_max_ = bytes; }
  [[nodiscard]] std::uint32_t shared_bytes_max() const noexcept override { return shared_bytes_max_; }
  [[nodiscard]] void* native() const noexcept override { return nullptr; }
  void run(std::string, std::function<void()> body) override { body(); }
  void copy(void*, const void*, std::size_t) override { refuse(); }
  void copy(std::span<const copy_piece>) override { refuse(); }
  void fill(void*, std::uint8_t, std::size_t) override { refuse(); }
  void gemm(const gemm_job&, std::uint32_t) override { refuse(); }
  std::uint32_t gemm_proposals(const gemm_job&) override { refuse(); }
  void prepare_products() override { refuse(); }
  void record(driver_event&) override { refuse(); }
  void wait(driver_event&) override { refuse(); }
  void notify(reaction) override { refuse(); }
  void synchronize() override {}
  void begin_capture() override { refuse(); }
  [[nodiscard]] std::unique_ptr<driver_graph> end_capture() override { refuse(); }
  void launch(driver_graph&) override { refuse(); }

private:
  /// The current device's; emulated, what an H100 has.
  static std::uint32_t of_the_device() {
#if defined(GODWIT_KERNELS_NATIVE)
    int bytes = 0;
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) != cudaSuccess) return 0;
    return static_cast<std::uint32_t>(bytes);
#else
    return 227U << 10U;
#endif
  }
  [[noreturn]] static void refuse() { throw std::logic_error("this stream runs kernels, nothing else"); }
  std::uint32_t shared_bytes_max_ = of_the_device();
};

} // namespace godwit::gpu::cuda::testing
