#pragma once

#include <bit>
#include <cstdint>

/// Conversions of 16-bit floats, to nearest even, as the GPU's cvt.rn does them.
namespace godwit::gpu::cuda::simt::numbers {

[[nodiscard]] inline float from_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

[[nodiscard]] inline std::uint16_t to_bf16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF; // NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

[[nodiscard]] inline float from_f16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U, rest = bits & 0x7FFFU;
  if (rest >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (rest & 0x3FFU) << 13U);
  // Scaled by 2^112, which makes subnormal numbers right, too.
  const float magnitude = std::bit_cast<float>(rest << 13U) * 0x1.0p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

[[nodiscard]] inline std::uint16_t to_f16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16U & 0x8000U);
  const std::uint32_t rest = bits & 0x7FFFFFFFU;
  if (rest > 0x7F800000U) return 0x7FFF;                                      // NaN
  if (rest >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U); // 65520 and more
  if (rest < 0x38800000U) {                                                   // below 2^-14: in steps of 2^-24
    const float steps = std::bit_cast<float>(rest) + 0.5F;                    // the sum's ulp is 2^-24
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(steps) - 0x3F000000U));
  }
  const std::uint32_t rounded = rest + 0xFFFU + (rest >> 13U & 1U);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000U) >> 13U);
}

} // namespace godwit::gpu::cuda::simt::numbers
