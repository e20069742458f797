#pragma once

#include <cstddef>
#include <cstdint>

namespace godwit::protocols {

enum class memory_kind : std::uint8_t {
  host,   ///< pageable
  pinned, ///< page-locked, copied asynchronously by a device
  device  ///< reachable by the device's kernels only
};

/// Memory as gpu/ and transport/ hand it to each other, which do not know one another. Owns nothing.
struct memory_region {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  memory_kind kind = memory_kind::host;
};

} // namespace godwit::protocols
