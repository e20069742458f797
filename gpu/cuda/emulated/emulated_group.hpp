#pragma once

#include "cuda/group_end.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace godwit::gpu::cuda::emulated {

/// A host group (gpu/collective) whose ranks are streams' threads: sums in the order of the ranks. As particular as
/// NCCL: an operation that some ranks have captured and others not, or at another time, breaks it.
[[nodiscard]] std::vector<std::shared_ptr<group_end>> make_emulated_group(std::uint32_t ranks,
                                                                          std::chrono::nanoseconds wait_max);

} // namespace godwit::gpu::cuda::emulated
