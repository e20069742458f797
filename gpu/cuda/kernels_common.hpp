#pragma once

#include "cuda/kernels.hpp"
#include "cuda/simt.hpp"

#include <stdexcept>
#include <string>

// What the kernels' sources share.

namespace godwit::gpu::cuda {

[[nodiscard]] constexpr std::uint32_t pieces(std::uint64_t count, std::uint64_t each) noexcept {
  return static_cast<std::uint32_t>((count + each - 1) / each);
}

/// Throws std::invalid_argument: a caller's bug.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("a kernel's launch: ") + what);
}

/// Calls `use` with a value of the type that `type` names, bf16 or f16.
template <class Use> void with_type(data_type type, const Use& use) {
  switch (type) {
  case data_type::bf16:
    return use(simt::bf16{});
  case data_type::f16:
    return use(simt::f16{});
  default:
    require(false, "weights are bf16 or f16");
  }
}

namespace simt {

/// A product's element as far as f16 goes: its sum may be finite in f32 and infinite in f16, and NaN would come of that
/// in what follows. Other types have f32's range, and NaN stays.
template <class From> GODWIT_DEVICE float within_range(float x) { return x; }
template <> GODWIT_DEVICE float within_range<f16>(float x) {
  return x > 65504.0F ? 65504.0F : x < -65504.0F ? -65504.0F : x;
}

/// Sum over the lanes of a warp, in one order; every lane gets it.
GODWIT_DEVICE float sum_of_warp(float x) {
  for (std::uint32_t mask = 16; mask > 0; mask /= 2) x = add(x, shuffle_xor(x, mask));
  return x;
}

/// Eight values of 16 bits, widened.
template <class Type> GODWIT_DEVICE void widen8(words4 from, float (&to)[8]) {
  const std::uint32_t words[4] = {from.x, from.y, from.z, from.w};
  GODWIT_UNROLL
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = widen(Type{static_cast<std::uint16_t>(words[i] & 0xFFFFU)});
    to[2 * i + 1] = widen(Type{static_cast<std::uint16_t>(words[i] >> 16U)});
  }
}

template <class Type> GODWIT_DEVICE words4 narrow8(const float (&from)[8]) {
  return {pack<Type>(from[0], from[1]), pack<Type>(from[2], from[3]), pack<Type>(from[4], from[5]),
          pack<Type>(from[6], from[7])};
}

GODWIT_DEVICE void load4(const float* p, float (&to)[4]) {
  const words4 v = load16(p);
  to[0] = float_of(v.x);
  to[1] = float_of(v.y);
  to[2] = float_of(v.z);
  to[3] = float_of(v.w);
}
/// Eight values from 16-byte aligned memory.
template <class Type> GODWIT_DEVICE void load8(const Type* p, float (&to)[8]) { widen8<Type>(load16(p), to); }
template <> GODWIT_DEVICE void load8<float>(const float* p, float (&to)[8]) {
  float low[4], high[4];
  load4(p, low);
  load4(p + 4, high);
  GODWIT_UNROLL
  for (int i = 0; i < 4; ++i) {
    to[i] = low[i];
    to[i + 4] = high[i];
  }
}

GODWIT_DEVICE void store8(float* p, const float (&from)[8]) {
  store16(p, {bits_of(from[0]), bits_of(from[1]), bits_of(from[2]), bits_of(from[3])});
  store16(p + 4, {bits_of(from[4]), bits_of(from[5]), bits_of(from[6]), bits_of(from[7])});
}

/// e^x to some units in the last place of f32.
GODWIT_DEVICE float exponential(float x) { return power_of_two(mul(x, 1.44269504088896341F)); }

} // namespace simt

} // namespace godwit::gpu::cuda
