#include "cpu/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace godwit::gpu::cpu {

namespace {

double llama3_frequency(const model::rope_config& rope, double frequency) {
  // Long waves are stretched, short ones kept, those between blended.
  const double original = rope.original_positions, length = 2 * std::numbers::pi / frequency;
  if (length > original / rope.low_frequency_factor) return frequency / rope.factor;
  if (length < original / rope.high_frequency_factor) return frequency;
  const double share =
      (original / length - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - share) * frequency / rope.factor + share * frequency;
}

/// Which pair of a head turns so often within the original context, as a fraction.
double pair_of(const model::rope_config& rope, std::uint32_t head_size, double rotations) {
  return head_size * std::log(rope.original_positions / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

double yarn_frequency(const model::rope_config& rope, std::uint32_t head_size, std::uint32_t pair, double frequency) {
  double first = pair_of(rope, head_size, rope.fast_rotations), last = pair_of(rope, head_size, rope.slow_rotations);
  if (rope.whole_pairs) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, head_size - 1.0);
  if (first == last) last += 0.001; // as everybody has it
  const double stretched = std::clamp((pair - first) / (last - first), 0.0, 1.0);
  return stretched * frequency / rope.factor + (1 - stretched) * frequency;
}

double scaled(const model::rope_config& rope, std::uint32_t head_size, std::uint32_t pair) {
  const double frequency = 1.0 / std::pow(rope.theta, 2.0 * pair / head_size);
  switch (rope.scaling) {
  case model::rope_config::scaling_kind::none:
    return frequency;
  case model::rope_config::scaling_kind::linear:
    return frequency / rope.factor;
  case model::rope_config::scaling_kind::llama3:
    return llama3_frequency(rope, frequency);
  case model::rope_config::scaling_kind::yarn:
    return yarn_frequency(rope, head_size, pair, frequency);
  case model::rope_config::scaling_kind::factors:
    return frequency / static_cast<double>(rope.factors.at(pair));
  }
  return frequency;
}

} // namespace

// Reduction by multiples of pi / 2 in two parts and the polynomials of fdlibm's kernel functions.
cosine_sine turn(double angle) noexcept {
  constexpr double rounding = 6755399441055744.0; // 1.5 * 2^52
  const double n = (angle * (2 / std::numbers::pi) + rounding) - rounding;
  const double r = (angle - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
  const double z = r * r;
  const double s = r + r * z *
                           (-1.66666666666666324348e-01 +
                            z * (8.33333333332248946124e-03 +
                                 z * (-1.98412698298579493134e-04 +
                                      z * (2.75573137070700676789e-06 +
                                           z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
  const double c = 1 - 0.5 * z +
                   z * z *
                       (4.16666666666666019037e-02 +
                        z * (-1.38888888888741095749e-03 +
                             z * (2.48015872894767294178e-05 +
                                  z * (-2.75573143513906633035e-07 +
                                       z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  switch (static_cast<std::int64_t>(n) & 3) {
  case 0:
    return {c, s};
  case 1:
    return {-s, c};
  case 2:
    return {-c, -s};
  default:
    return {s, -c};
  }
}

rope_angles::rope_angles(const model::rope_config& rope, std::uint32_t head_size) : factor_(rope.attention_factor) {
  for (std::uint32_t pair = 0; pair < head_size / 2; ++pair)
    frequencies_.push_back(static_cast<float>(scaled(rope, head_size, pair)));
}

void rope_angles::at(std::uint32_t position, float* cosine, float* sine) const noexcept {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    // The product in f32, as the reference implementation forms it.
    const float angle = static_cast<float>(position) * frequencies_[i];
    const auto [c, s] = turn(static_cast<double>(angle));
    cosine[i] = static_cast<float>(c * factor_);
    sine[i] = static_cast<float>(s * factor_);
  }
}

} // namespace godwit::gpu::cpu
