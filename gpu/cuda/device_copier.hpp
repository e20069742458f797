#pragma once

#include "cuda/driver.hpp"

#include <godwit/protocols/messages/memory_copier.hpp>

#include <memory>

namespace godwit::gpu::cuda {

/// Copies of a device's memory on streams of their own, for each urgency one in each direction, beside the steps.
///
/// Many small pieces of one length are gathered and scattered by a kernel that writes and reads pinned memory, a few
/// processors wide; what is large or uneven by the copy engines. `alone`: no other device of this process has memory
/// that it is asked to copy. Otherwise the copy engines do all of it: they reach all devices' memory, and a kernel its
/// own.
[[nodiscard]] std::shared_ptr<protocols::memory_copier> make_device_copier(std::shared_ptr<driver> of,
                                                                           bool alone = true);

/// Cuts two lists of regions of equal sums into pieces that each lie in one region of both; neighbours in both are one.
[[nodiscard]] std::vector<copy_piece> common_pieces(const std::vector<protocols::memory_region>& from,
                                                    const std::vector<protocols::memory_region>& into);

} // namespace godwit::gpu::cuda
