#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace godwit::protocols {

/// SipHash-2-4 (Aumasson and Bernstein 2012), of words: the caller ends with the length in bytes, modulo 256, in the
/// uppermost byte of the last one. A keyed hash: who has not the key cannot choose texts that collide.
class sip_hash {
public:
  enum class width : std::uint8_t { bits64, bits128 };

  sip_hash(std::uint64_t low, std::uint64_t high, width w) noexcept
      : v_{low ^ 0x736f6d6570736575ULL, high ^ 0x646f72616e646f6dULL, low ^ 0x6c7967656e657261ULL,
           high ^ 0x7465646279746573ULL},
        wide_(w == width::bits128) {
    if (wide_) v_[1] ^= 0xee;
  }

  void take(std::uint64_t word) noexcept {
    v_[3] ^= word;
    round();
    round();
    v_[0] ^= word;
  }
  /// After all words: the hash, or its first half.
  [[nodiscard]] std::uint64_t first() noexcept {
    v_[2] ^= wide_ ? 0xee : 0xff;
    return finish();
  }
  /// Of 128 bits, after `first`.
  [[nodiscard]] std::uint64_t second() noexcept {
    v_[1] ^= 0xdd;
    return finish();
  }

private:
  std::uint64_t finish() noexcept {
    for (int i = 0; i < 4; ++i) round();
    return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
  }
  void round() noexcept {
    v_[0] += v_[1];
    v_[2] += v_[3];
    v_[1] = std::rotl(v_[1], 13) ^ v_[0];
    v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[1];
    v_[0] += v_[3];
    v_[1] = std::rotl(v_[1], 17) ^ v_[2];
    v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] = std::rotl(v_[2], 32);
  }

  std::array<std::uint64_t, 4> v_;
  bool wide_;
};

} // namespace godwit::protocols
