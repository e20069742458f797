#pragma once

#include <godwit/protocols/messages/memory_copier.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace godwit::transport {

/// A piece of page-locked memory on loan; it goes back with the last holder, on whatever thread.
using pinned_piece = std::shared_ptr<std::byte>;

/// A fixed number of page-locked pieces of one size, the last few of which are for urgent work alone. Thread-safe.
class pinned_ring {
public:
  /// Throws std::runtime_error where the copier has no such memory.
  pinned_ring(protocols::memory_copier& from, std::uint32_t pieces, std::uint32_t urgent_pieces, std::size_t bytes);

  /// Null where none is free for this. Never waits.
  [[nodiscard]] pinned_piece take(bool urgent);
  [[nodiscard]] bool free(bool urgent) const { return free_count(urgent) != 0; }
  [[nodiscard]] std::uint32_t free_count(bool urgent) const;
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// A short text, 64 bytes at most, in memory of the same kind as the pieces, beside them. One text for all time.
  [[nodiscard]] const char* mark(std::string_view text);

private:
  struct shared;
  std::shared_ptr<shared> state_; ///< outlives the ring while pieces are out
};

} // namespace godwit::transport
