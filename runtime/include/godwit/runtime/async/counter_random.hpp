#pragma once

#include <array>
#include <cstdint>

namespace godwit::runtime::async {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128 random bits as a pure
/// function of (key, counter), the same on every machine.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::array<std::uint32_t, 4> counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

/// A source of random numbers to hand in as an argument. (seed, stream) name a sequence; its n-th number depends on
/// nothing else.
class counter_random {
public:
  explicit counter_random(std::uint64_t seed, std::uint64_t stream = 0) noexcept : seed_(seed), stream_(stream) {}

  [[nodiscard]] std::uint64_t next() noexcept {
    const auto bits = at(count_++);
    return bits;
  }
  /// The n-th number of the sequence.
  [[nodiscard]] std::uint64_t at(std::uint64_t n) const noexcept {
    const auto bits = philox(seed_, {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32),
                                     static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)});
    return bits[0] | std::uint64_t{bits[1]} << 32;
  }
  /// Evenly in [0, n); n > 0. The bias of the multiplication is below n / 2^64.
  [[nodiscard]] std::uint64_t below(std::uint64_t n) noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<wide>(next()) * n) >> 64);
  }
  /// Evenly in [0, 1).
  [[nodiscard]] double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// An independent sequence.
  [[nodiscard]] counter_random stream(std::uint64_t number) const noexcept { return counter_random{seed_, number}; }
  // std::uniform_random_bit_generator, for std::shuffle
  using result_type = std::uint64_t;
  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~result_type{0}; }
  result_type operator()() noexcept { return next(); }

private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t count_ = 0;
};

} // namespace godwit::runtime::async
