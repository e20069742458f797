#pragma once

#include "cuda/driver.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/protocols/messages/memory_copier.hpp>

#include <memory>

namespace godwit::gpu::cuda {

/// Copies of a device's memory on streams of their own, for each urgency one in each direction, beside the steps.
///
/// Many small pieces of one length are gathered and scattered by a kernel that writes and reads pinned memory, a few
/// processors wide; what is large or uneven by the copy engines. Those do all of it where `small_pieces` says so, which
/// it has to where other devices of this process have memory that is to be copied: they reach that of all devices, and
/// a kernel its own.
[[nodiscard]] std::shared_ptr<protocols::memory_copier> make_device_copier(std::shared_ptr<driver> of,
                                                                           copy_by small_pieces = copy_by::kernel);

/// Cuts two lists of regions of equal sums into pieces that each lie in one region of both; neighbours in both are one.
[[nodiscard]] std::vector<copy_piece> common_pieces(const std::vector<protocols::memory_region>& from,
                                                    const std::vector<protocols::memory_region>& into);

} // namespace godwit::gpu::cuda
