#pragma once

// Where nccl.h was found when this was built only (GODWIT_NCCL).

#include <nccl.h>

namespace godwit::gpu::cuda::native {

/// What is used of NCCL, which is loaded when it is first needed: most machines have one GPU, and no NCCL.
struct nccl_functions {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
};

/// Throws driver_error with one line where the library is missing or lacks something. It is never unloaded.
[[nodiscard]] const nccl_functions& nccl();

} // namespace godwit::gpu::cuda::native
