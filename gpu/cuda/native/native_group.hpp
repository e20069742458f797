#pragma once

#include "cuda/driver.hpp"
#include "cuda/group_end.hpp"

#include <chrono>
#include <memory>
#include <vector>

namespace godwit::gpu::cuda::native {

/// A group of this process's GPUs over NCCL, named by their indices. As driver::make_group; throws driver_error with
/// one line where NCCL is missing.
///
/// NCCL adds in an order of its own, which may depend on where in the values an element lies.
[[nodiscard]] std::vector<std::shared_ptr<group_end>>
make_native_group(const std::vector<int>& devices, std::chrono::nanoseconds wait_max, const warning& warn);

} // namespace godwit::gpu::cuda::native
