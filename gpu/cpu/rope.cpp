#include "cpu/rope.hpp"

#include <cmath>
#include <numbers>

namespace godwit::gpu::cpu {

namespace {

double scaled(const model::rope_config& rope, double frequency) {
  using kind = model::rope_config::scaling_kind;
  if (rope.scaling == kind::none) return frequency;
  if (rope.scaling == kind::linear) return frequency / rope.factor;
  // llama3: long waves are stretched, short ones kept, those between blended.
  const double original = rope.original_positions, length = 2 * std::numbers::pi / frequency;
  if (length > original / rope.low_frequency_factor) return frequency / rope.factor;
  if (length < original / rope.high_frequency_factor) return frequency;
  const double share =
      (original / length - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - share) * frequency / rope.factor + share * frequency;
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

rope_angles::rope_angles(const model::config& config) {
  for (std::uint32_t i = 0; i < config.head_size / 2; ++i) {
    const double exponent = 2.0 * i / config.head_size;
    frequencies_.push_back(static_cast<float>(scaled(config.rope, 1.0 / std::pow(config.rope.theta, exponent))));
  }
}

void rope_angles::at(std::uint32_t position, float* cosine, float* sine) const noexcept {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    // The product in f32, as the reference implementation forms it.
    const float angle = static_cast<float>(position) * frequencies_[i];
    const auto [c, s] = turn(static_cast<double>(angle));
    cosine[i] = static_cast<float>(c);
    sine[i] = static_cast<float>(s);
  }
}

} // namespace godwit::gpu::cpu
