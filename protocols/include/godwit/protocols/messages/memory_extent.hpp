#pragma once

#include <cstddef>
#include <cstdint>

namespace godwit::protocols {

/// A whole piece of memory as its owner allocated it, around an address in it: what a network adapter is told once
/// before it reads or writes any part. Like `memory_region` a word between gpu/ and transport/. Owns nothing.
struct memory_extent {
  std::uint64_t id = 0; ///< of this memory, never used twice by its allocator; 0: none
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  /// What a network's adapter has written is seen by whatever the memory's device begins afterwards.
  bool takes_writes = true;
};

} // namespace godwit::protocols
