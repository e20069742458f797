#pragma once

#include "device/going.hpp"

#include <godwit/gpu/swap_space.hpp>
#include <godwit/protocols/messages/memory_copier.hpp>
#include <godwit/protocols/messages/memory_region.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace godwit::gpu {

/// Where the KV of a block lies in the pool, the same number of bytes for each. Holds the pool.
using block_regions = std::function<std::vector<protocols::memory_region>(protocols::block_id)>;

/// A swap space in memory that the copier allocates, of `bytes` as far as whole slots of `block_bytes` go. Null where
/// that is not one. Throws out_of_memory. Its end waits for copies, and for the copier to let go, as `how` says; then a
/// thread has both, the memory and the pool until they are over.
[[nodiscard]] std::shared_ptr<swap_space>
make_copied_swap_space(std::shared_ptr<protocols::memory_copier> copier, block_regions pool, std::uint64_t block_bytes,
                       std::uint64_t bytes, std::shared_ptr<const going> how = std::make_shared<going>());

} // namespace godwit::gpu
