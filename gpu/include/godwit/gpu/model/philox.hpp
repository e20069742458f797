#pragma once

#include <array>
#include <cstdint>

namespace godwit::gpu::model {

/// Philox4x32-10: four random words as a pure function of a counter and a key (Salmon, Moraes, Dror, Shaw: Parallel
/// Random Numbers: As Easy as 1, 2, 3; SC'11).
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                                            std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const auto a = std::uint64_t{0xD2511F53U} * counter[0];
    const auto b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// The number that draws token `index` of an answer: uniform in [0, 1), 53 bits. Key: the seed; counter: (index, 0, 0,
/// 0).
[[nodiscard]] constexpr double uniform(std::uint64_t seed, std::uint32_t index) noexcept {
  const auto words =
      philox({index, 0, 0, 0}, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
  const auto bits = (std::uint64_t{words[0]} << 21U) ^ (words[1] >> 11U);
  return static_cast<double>(bits) * 0x1.0p-53;
}

} // namespace godwit::gpu::model
