#pragma once

#include <cstddef>
#include <cstdint>

/// Pages that other processes of this host can map (gpu/shared_memory.hpp finds them).
namespace godwit::gpu::cpu {

/// `bytes`, a multiple of the page, zeroed, at a multiple of `alignment`; null where the system has none to give: it is
/// not Linux, or no descriptor is free.
[[nodiscard]] std::byte* map_shared(std::uint64_t bytes, std::uint64_t alignment);

/// Gives back what `map_shared` made. The pages are free at once, whoever else has mapped them: what is read there from
/// now on is zero.
void unmap_shared(std::byte* address) noexcept;

} // namespace godwit::gpu::cpu
