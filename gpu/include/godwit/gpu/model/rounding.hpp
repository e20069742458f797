#pragma once

#include <cstdint>

namespace godwit::gpu::model {

/// What the matrices of a model's layers are rounded to as it is loaded.
enum class rounding : std::uint8_t {
  none,
  int8, ///< integers of 8 bits, with a scale for each 32 of a row: nine bits a weight
  int4  ///< integers of 4 bits, likewise: 5.25 bits a weight
};

} // namespace godwit::gpu::model
