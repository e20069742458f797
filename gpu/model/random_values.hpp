#pragma once

#include "model/tensor_list.hpp"

#include <cstdint>
#include <span>

namespace godwit::gpu::model {

/// Random weights as a pure function of (seed, number of the tensor, number of the element).
///
/// Scales keep activations of order one through any number of layers: projections have variance 1 / inputs, those that
/// write into the residual stream 1 / (inputs * 2 * layers), norms are 1 (0 in files that say how much they are above
/// it), biases are small.
class random_values {
public:
  random_values(const config& configuration, std::uint64_t seed)
      : layers_(configuration.layers), norms_less_one_(configuration.norms_less_one), seed_(seed) {}

  /// bf16 values of elements first, first + 1, ... of a tensor; `first` is a multiple of 8.
  void fill(const tensor_need& tensor, std::uint32_t number, std::uint64_t first, std::span<std::uint16_t> out) const;

private:
  std::uint32_t layers_;
  bool norms_less_one_;
  std::uint64_t seed_;
};

} // namespace godwit::gpu::model
