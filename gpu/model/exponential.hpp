#pragma once

#include <bit>
#include <cstdint>

namespace godwit::gpu::model {

/// e^x for x <= 0, as float; 0 below -87, where float's normal numbers end.
///
/// libm chooses its expf by processor, and two instances must draw the same token. This one is a fixed series of double
/// operations without a fused multiply-add (2^k times a polynomial in the remainder), good to float precision.
[[nodiscard]] inline float exp_nonpositive(float x) noexcept {
  if (!(x > -87.0F)) return 0.0F;
  const double scaled = static_cast<double>(x) * 1.4426950408889634; // log2(e)
  const auto whole = static_cast<std::int32_t>(scaled - 0.5);        // rounds to nearest, as scaled <= 0
  const double r = (scaled - whole) * 0.6931471805599453;            // |r| <= ln(2) / 2
  double sum = 1.0 / 40320;
  for (const double term : {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0}) {
    const double product = sum * r;
    sum = product + term;
  }
  const double power = std::bit_cast<double>((std::int64_t{whole} + 1023) << 52U);
  return static_cast<float>(sum * power);
}

} // namespace godwit::gpu::model
