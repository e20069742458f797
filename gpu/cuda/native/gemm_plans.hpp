#pragma once

#include "cuda/driver.hpp"

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace godwit::gpu::cuda::native {

/// Scratch that a product may use: what NVIDIA advises for Hopper.
inline constexpr std::size_t gemm_workspace_bytes = std::size_t{32} << 20U;

/// Products by cuBLASLt. The heuristic is asked once for each shape, and what it proposes kept: shapes come again all
/// the time, and the same shape shall have the same order of summation. Thread-safe.
class gemm_plans {
public:
  gemm_plans();
  ~gemm_plans();
  gemm_plans(const gemm_plans&) = delete;
  gemm_plans& operator=(const gemm_plans&) = delete;

  /// Enqueues a product, by the proposal of that number. `workspace` has gemm_workspace_bytes and belongs to the
  /// stream. Throws driver_error.
  void run(const gemm_job& job, std::uint32_t proposal, void* workspace, cudaStream_t stream);
  /// Of algorithms for such a product; at least one. Throws driver_error.
  [[nodiscard]] std::uint32_t proposals(const gemm_job& job);

private:
  struct plan;
  using shape = std::tuple<model::data_type, model::data_type, std::uint32_t, std::uint32_t, std::uint32_t, bool>;
  [[nodiscard]] std::shared_ptr<const plan> plan_for(const gemm_job& job);

  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<shape, std::shared_ptr<const plan>> plans_;
};

} // namespace godwit::gpu::cuda::native
