#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace godwit::gpu::model {

/// The finaliser of splitmix64 over words of eight bytes: for fingerprints, equal on every machine.
class hasher {
public:
  void word(std::uint64_t x) noexcept {
    x = (state_ ^ x) + 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    state_ = x ^ (x >> 31U);
  }
  void bytes(const void* data, std::uint64_t size) noexcept {
    const auto* from = static_cast<const std::byte*>(data);
    word(size);
    for (; size > 0;) {
      std::uint64_t x = 0;
      const auto part = std::min<std::uint64_t>(size, sizeof x);
      std::memcpy(&x, from, part);
      if constexpr (std::endian::native == std::endian::big) x = __builtin_bswap64(x);
      word(x);
      from += part;
      size -= part;
    }
  }
  void text(std::string_view s) noexcept { bytes(s.data(), s.size()); }
  void number(double x) noexcept { word(std::bit_cast<std::uint64_t>(x)); }
  /// Of `size` bytes so many pages of 4 KiB, the first, the last and others evenly between; all of it where it is no
  /// longer. `read(offset, length)` gives bytes, until it is asked again.
  template <class Read> void sample(std::uint64_t size, std::uint64_t pages, const Read& read) {
    constexpr std::uint64_t page_bytes = 4096;
    if (size <= page_bytes * pages) return bytes(size == 0 ? nullptr : read(0, size), size);
    for (std::uint64_t i = 0; i < pages; ++i) {
      const auto at = (size - page_bytes) / (pages - 1) * i;
      bytes(read(i + 1 < pages ? at : size - page_bytes, page_bytes), page_bytes);
    }
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return state_; }

private:
  std::uint64_t state_ = 0;
};

} // namespace godwit::gpu::model
