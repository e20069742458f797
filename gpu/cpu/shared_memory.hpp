#pragma once

#include <cstddef>
#include <cstdint>

/// Pages that other processes of this host can map (gpu/shared_memory.hpp finds them).
namespace godwit::gpu::cpu {

/// `bytes`, a multiple of `alignment`, zeroed, at a multiple of it: of 4 KiB, or the size of a huge page, of which it
/// is made then where the kernel can; that takes the memory at once. Null where the system has none to give: it is not
/// Linux, no descriptor is free, or it never promises more memory than it has (vm.overcommit_memory 2), which it does
/// not hold to here.
[[nodiscard]] std::byte* map_shared(std::uint64_t bytes, std::uint64_t alignment);

/// Gives back what `map_shared` made. The pages are free at once, whoever else has mapped them: what is read there from
/// now on is zero.
void unmap_shared(std::byte* address) noexcept;

} // namespace godwit::gpu::cpu
