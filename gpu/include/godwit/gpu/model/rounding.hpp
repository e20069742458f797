#pragma once

#include <cstdint>

namespace godwit::gpu::model {

/// What the matrices of a model's layers are rounded to as it is loaded.
enum class rounding : std::uint8_t {
  none,
  int8, ///< integers of 8 bits, with a scale for each 32 of a row: nine bits a weight
  int4, ///< integers of 4 bits, likewise: 5.25 bits a weight
  q8_0, ///< as int8; activations that meet them are rounded to eight bits, too, which is quicker (llama.cpp's Q8_0)
  q4_0  ///< as int4, likewise: five bits a weight
};
[[nodiscard]] constexpr bool rounds_activations(rounding to) noexcept {
  return to == rounding::q8_0 || to == rounding::q4_0;
}

} // namespace godwit::gpu::model
