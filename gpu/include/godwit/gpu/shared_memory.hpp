#pragma once

#include <godwit/protocols/messages/shared_memory.hpp>

#include <cstddef>
#include <optional>

namespace godwit::gpu {

/// The memory made by `memory_pool::allocate_shared` in which `address` lies, while it is allocated; nothing for other
/// addresses, and on systems that have no such memory. Thread-safe. For a fabric: whoever may read this memory from
/// another process can then map it, which is several times as fast as to have the kernel copy it
/// (docs/design/fabric.md).
[[nodiscard]] std::optional<protocols::shared_memory> find_shared_memory(const std::byte* address);

} // namespace godwit::gpu
