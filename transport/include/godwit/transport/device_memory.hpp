#pragma once

#include <godwit/protocols/messages/memory_copier.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace godwit::transport {

/// How a fabric moves memory of a device: through page-locked pieces, a bounded number of them, or by the copier alone
/// where both ends are in this process (docs/design/fabric.md).
struct device_memory {
  std::shared_ptr<protocols::memory_copier> copier; ///< null: regions of a device are refused
  /// Page-locked pieces for what is sent, and as many again for what arrives, so that two fabrics that send to each
  /// other do not wait for each other. A fabric that is made with a copier takes them at once, and throws
  /// std::runtime_error where there are none.
  std::uint32_t pieces = 16;
  std::uint32_t urgent_pieces = 2; ///< of these, for urgent sends alone
  /// Of one such piece. A sender of larger messages than that is refused.
  std::size_t bytes_per_piece = std::size_t{1} << 20;
  /// What the copier is given at once between two places in this process; 4 KiB at least.
  std::size_t bytes_per_copy = std::size_t{4} << 20;
  /// For so long the destructor of a fabric waits for copies that have begun, or where there are none for the copier to
  /// go. Then it leaves them, with the copier and the memory, to a thread: a device that takes longer is broken. A
  /// withdrawal goes on waiting for such a copy, which could land at any time, until the fabric ends.
  std::chrono::milliseconds patience{10'000};
};

} // namespace godwit::transport
