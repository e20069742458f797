#pragma once

#include <godwit/gpu/collective.hpp>

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace godwit::gpu::cuda {

/// Where a rank's operations are enqueued.
struct nccl_place {
  int device = 0;         ///< as CUDA counts them
  void* stream = nullptr; ///< its cudaStream_t
};

/// A group of this process's GPUs over NCCL. Values lie in the memory of the rank's device; an operation is enqueued on
/// its stream. NCCL's order of summation is its own, the same for one size, one set of devices and one version of NCCL.
/// `wait_max`: bound of what the host waits for (the setup of the group, and of the ways between devices).
/// Throws std::runtime_error with what NCCL says.
[[nodiscard]] std::vector<std::shared_ptr<collective::communicator>>
make_nccl_group(std::span<const nccl_place> places, std::chrono::nanoseconds wait_max = std::chrono::minutes(1));

} // namespace godwit::gpu::cuda
