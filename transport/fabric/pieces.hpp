#pragma once

#include <godwit/protocols/messages/memory_region.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace godwit::transport {

/// `count` neighbouring regions of `bytes` each.
struct size_run {
  std::uint64_t bytes = 0;
  std::uint32_t count = 0;
  friend bool operator==(const size_run&, const size_run&) = default;
};

/// The part of a send that travels as one message: which regions, how large the sender has them, and which of their
/// bytes. It begins `offset` bytes into its first region and ends after `bytes`, perhaps within its last.
struct piece {
  std::uint32_t first_region = 0; ///< of the posting
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::vector<size_run> sizes; ///< of whole regions
  [[nodiscard]] std::uint64_t regions() const noexcept;
};

/// Bounds of a piece, so that its header is small and nothing has to wait long behind it.
struct piece_limits {
  std::uint64_t bytes_max = std::uint64_t{1} << 20;
  std::uint32_t regions_max = 1024;
  std::uint32_t runs_max = 32;
};

/// Cuts a send into pieces, in order.
class piece_cutter {
public:
  piece_cutter(std::uint32_t first_region, std::vector<protocols::memory_region> regions);
  /// True where all has been cut. A send without regions has one piece, which asks whether the posting is there.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  /// The next piece; `from` gets its memory, without regions of 0 bytes.
  [[nodiscard]] piece next(const piece_limits& limits, std::vector<protocols::memory_region>& from);
  [[nodiscard]] const std::vector<protocols::memory_region>& regions() const noexcept { return regions_; }
  [[nodiscard]] std::uint64_t bytes_total() const noexcept { return bytes_total_; }

private:
  std::uint32_t first_region_;
  std::vector<protocols::memory_region> regions_;
  std::size_t index_ = 0;    ///< the region in which the next piece begins
  std::uint64_t offset_ = 0; ///< and where in it
  std::uint64_t bytes_total_ = 0;
  bool ended_ = false;
};

} // namespace godwit::transport
