#pragma once

#include <bit>
#include <cstdint>

namespace godwit::gpu::model {

/// e^x for x <= 0 within two units in the last place; 0 below -87, where float's normal numbers end, and for NaN.
///
/// libm chooses its expf by processor, and two instances must draw the same token. This one is a fixed series of float
/// operations without a fused multiply-add: 2^n times a polynomial in what is left of x. It has no branch, so a loop
/// over it becomes vector code, which changes nothing in its value.
[[nodiscard]] inline float exp_nonpositive(float x) noexcept {
  const bool representable = x > -87.0F;
  const float bounded = representable ? x : 0.0F;
  const auto n = static_cast<std::int32_t>(bounded * 1.44269504F - 0.5F); // rounds to nearest, as bounded <= 0
  const auto whole = static_cast<float>(n);
  const float r = (bounded - whole * 0.693359375F) + whole * 2.12194440e-4F; // ln 2 in two parts (Cephes)
  float sum = 1.9875691500e-4F;
  sum = sum * r + 1.3981999507e-3F;
  sum = sum * r + 8.3334519073e-3F;
  sum = sum * r + 4.1665795894e-2F;
  sum = sum * r + 1.6666665459e-1F;
  sum = sum * r + 5.0000001201e-1F;
  sum = (sum * r) * r + r + 1.0F;
  const float power = std::bit_cast<float>((n + 127) * (1 << 23));
  return representable ? sum * power : 0.0F;
}

} // namespace godwit::gpu::model
