#include "model/random_values.hpp"

#include <godwit/gpu/model/philox.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace godwit::gpu::model {

namespace {

constexpr std::uint16_t one = 0x3F80;
constexpr std::size_t values_per_block = 8; // four words of Philox

/// Nearest, ties to even; the values here are finite.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

float deviation(const tensor_need& tensor, std::uint32_t layers) {
  const auto inputs = static_cast<float>(tensor.shape.back());
  switch (tensor.role) {
  case tensor_role::residual_projection:
    return 1.0F / std::sqrt(inputs * 2.0F * static_cast<float>(layers));
  case tensor_role::bias:
    return 0.1F;
  default:
    return 1.0F / std::sqrt(inputs);
  }
}

} // namespace

void random_values::fill(const tensor_need& tensor, std::uint32_t number, std::uint64_t first,
                         std::span<std::uint16_t> out) const {
  if (tensor.role == tensor_role::norm) {
    std::fill(out.begin(), out.end(), norms_less_one_ ? std::uint16_t{0} : one);
    return;
  }
  // Uniform in (-a, a) has the deviation a / sqrt(3).
  const float step = deviation(tensor, layers_) * std::sqrt(3.0F) / 32768.0F;
  // A counter of its own, apart from the sampler's, whose last word is 0.
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)};
  for (std::size_t at = 0; at < out.size(); at += values_per_block) {
    const auto block = (first + at) / values_per_block;
    const auto words =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), number, 1}, key);
    const auto count = std::min(values_per_block, out.size() - at);
    for (std::size_t i = 0; i < count; ++i) {
      const auto half = static_cast<std::int32_t>((words[i / 2] >> (16U * (i % 2))) & 0xFFFFU);
      out[at + i] = to_bf16((static_cast<float>(half - 32768) + 0.5F) * step);
    }
  }
}

} // namespace godwit::gpu::model
