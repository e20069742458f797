#pragma once

#include <cstddef>
#include <cstdint>

namespace godwit::protocols {

/// Memory that other processes of this host can map: pages of a file without a name (memfd) that cannot shrink. Like
/// `memory_region` a word between gpu/ and transport/, which do not know one another. Owns nothing.
struct shared_memory {
  std::uint64_t id = 0; ///< of this memory, never used twice in a process; 0: none
  int file = -1;        ///< its descriptor in this process
  std::byte* address = nullptr;
  std::size_t bytes = 0; ///< of the file, all of which is mapped at `address`
};

} // namespace godwit::protocols
