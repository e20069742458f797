#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

/// Numbers in as few bytes as they need: seven bits a byte, lowest first, the eighth says that more follow (LEB128).
/// Signed ones alternate, 0 -1 1 -2 2 (zigzag), so that small ones are short on both sides.
namespace godwit::runtime::trace::varint {

inline constexpr std::size_t bytes_max = 10;

[[nodiscard]] constexpr std::uint64_t zigzag(std::uint64_t difference) noexcept {
  return (difference << 1U) ^ (0 - (difference >> 63U));
}
[[nodiscard]] constexpr std::uint64_t unzigzag(std::uint64_t value) noexcept {
  return (value >> 1U) ^ (0 - (value & 1U));
}

/// There must be room for bytes_max.
[[nodiscard]] inline std::uint8_t* put(std::uint8_t* to, std::uint64_t value) noexcept {
  while (value >= 0x80) {
    *to++ = static_cast<std::uint8_t>(value | 0x80U);
    value >>= 7U;
  }
  *to++ = static_cast<std::uint8_t>(value);
  return to;
}

/// The difference of two numbers, which may wrap around.
[[nodiscard]] inline std::uint8_t* put_difference(std::uint8_t* to, std::uint64_t value, std::uint64_t base) noexcept {
  return put(to, zigzag(value - base));
}

/// Takes numbers and texts from bytes that nobody vouches for. After the first thing that is not there everything is 0
/// or empty, and failed() says so.
class source {
public:
  explicit source(std::span<const std::uint8_t> bytes) noexcept
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }

  [[nodiscard]] std::uint64_t number() noexcept {
    if (at_ != end_ && *at_ < 0x80) return *at_++; // nearly always
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const std::uint64_t byte = *at_++;
      if (shift == 63 && byte > 1) break; // more than 64 bits
      value |= (byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }
  [[nodiscard]] std::uint64_t difference(std::uint64_t base) noexcept { return base + unzigzag(number()); }
  [[nodiscard]] std::uint8_t byte() noexcept {
    if (at_ != end_) return *at_++;
    fail();
    return 0;
  }
  [[nodiscard]] std::span<const std::uint8_t> take(std::uint64_t bytes) noexcept {
    if (bytes > left()) {
      fail();
      return {};
    }
    const auto* from = at_;
    at_ += bytes;
    return {from, static_cast<std::size_t>(bytes)};
  }
  [[nodiscard]] std::string text() {
    const auto bytes = take(number());
    return bytes.empty() ? std::string{} : std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

private:
  void fail() noexcept {
    failed_ = true;
    at_ = end_;
  }
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool failed_ = false;
};

} // namespace godwit::runtime::trace::varint
