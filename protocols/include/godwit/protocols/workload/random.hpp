#pragma once

#include <cstdint>

namespace godwit::protocols::workload {

/// A counter-based random source: the n-th draw of (seed, stream) is a function of those three numbers alone.
///
/// Arrivals, prompt lengths and answer lengths use streams of their own, so that a change of the rate leaves the
/// lengths as they were and two runs compare like with like. The mixing is splitmix64's (Steele, Lea, Flood, OOPSLA
/// 2014).
class counter_random {
public:
  explicit counter_random(std::uint64_t seed, std::uint64_t stream = 0) noexcept
      : key_(mix(mix(seed + golden) ^ (stream * 0xD1B54A32D192ED03ULL))) {}

  [[nodiscard]] std::uint64_t at(std::uint64_t index) const noexcept { return mix(key_ + (index + 1) * golden); }
  [[nodiscard]] std::uint64_t next() noexcept { return at(index_++); }
  /// In the open interval (0, 1), 53 bits.
  [[nodiscard]] double unit() noexcept { return (static_cast<double>(next() >> 11U) + 0.5) * 0x1.0p-53; }
  /// In [0, bound), by multiplication: the bias is below bound / 2^64. `bound` > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<wide>(next()) * bound) >> 64U);
  }
  /// Standard normal (Box-Muller, one of the pair).
  [[nodiscard]] double normal() noexcept;
  /// Gamma distributed with scale 1 (Marsaglia and Tsang, 2000). `shape` > 0.
  [[nodiscard]] double gamma(double shape) noexcept;

private:
  static constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  static constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
  }

  std::uint64_t key_;
  std::uint64_t index_ = 0;
};

} // namespace godwit::protocols::workload
