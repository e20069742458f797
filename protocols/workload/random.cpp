#include <godwit/protocols/workload/random.hpp>

#include <cmath>
#include <numbers>

namespace godwit::protocols::workload {

double counter_random::normal() noexcept {
  const auto radius = std::sqrt(-2.0 * std::log(unit()));
  return radius * std::cos(2.0 * std::numbers::pi * unit());
}

double counter_random::gamma(double shape) noexcept {
  // The method wants shape >= 1; below, gamma(a) = gamma(a + 1) * U^(1/a).
  if (shape < 1.0) {
    const auto boost = std::pow(unit(), 1.0 / shape);
    return gamma(shape + 1.0) * boost;
  }
  const auto d = shape - 1.0 / 3.0;
  const auto c = 1.0 / std::sqrt(9.0 * d);
  // Each round accepts with a probability above 0.95, so the bound is there for form's sake.
  for (auto round = 0; round < 1000; ++round) {
    const auto x = normal();
    const auto t = 1.0 + c * x;
    if (t <= 0.0) continue;
    const auto v = t * t * t;
    if (std::log(unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
  return d;
}

} // namespace godwit::protocols::workload
