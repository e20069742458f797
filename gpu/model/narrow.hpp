#pragma once

#include <godwit/gpu/model/config.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace godwit::gpu::model {

/// The nearest such number; of two equally near the one with an even last bit. Of what is no number, any (bf16).
[[nodiscard]] inline std::uint16_t narrow_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

[[nodiscard]] inline std::uint16_t narrow_to_f16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16U & 0x8000U);
  const std::uint32_t size = bits & 0x7fffffffU;
  if (size > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U); // no number
  if (size >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (size < 0x38800000U) { // denormal: units of 2^-24
    const float units = std::bit_cast<float>(size) * 0x1p24F;
    const auto whole = static_cast<std::uint32_t>(units);
    const float rest = units - static_cast<float>(whole);
    const bool up = rest > 0.5F || (rest == 0.5F && whole % 2 == 1);
    return static_cast<std::uint16_t>(sign | (whole + (up ? 1U : 0U)));
  }
  const std::uint32_t rounded = size + 0xfffU + (size >> 13U & 1U) - 0x38000000U;
  return static_cast<std::uint16_t>(sign | std::min(rounded >> 13U, 0x7c00U));
}

/// A value of a tensor, wherever it goes.
inline void narrow(data_type type, float value, std::byte* to) noexcept {
  if (type == data_type::f32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  // Rounding would make infinity, or worse, of what is no number.
  const auto half = type == data_type::f16 ? narrow_to_f16(value)
                    : std::isnan(value)    ? std::uint16_t{0x7fc0}
                                           : narrow_to_bf16(value);
  std::memcpy(to, &half, sizeof half);
}

} // namespace godwit::gpu::model
