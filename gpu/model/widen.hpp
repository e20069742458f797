#pragma once

#include <godwit/gpu/model/config.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace godwit::gpu::model {

[[nodiscard]] inline float widen_f16(std::uint16_t half) noexcept {
  const std::uint32_t sign = std::uint32_t(half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 31U, mantissa = half & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | mantissa << 13U);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23U | mantissa << 13U);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24F));
}

/// A value of a tensor, wherever it lies.
[[nodiscard]] inline float widen(data_type type, const std::byte* value) noexcept {
  if (type == data_type::f32) {
    float wide = 0;
    std::memcpy(&wide, value, sizeof wide);
    return wide;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, value, sizeof half);
  return type == data_type::bf16 ? std::bit_cast<float>(std::uint32_t{half} << 16U) : widen_f16(half);
}

} // namespace godwit::gpu::model
