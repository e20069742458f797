#pragma once

#include <godwit/protocols/workload/random.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace godwit::gpu::sim {

/// How far steps of one shape lie apart on a measured device.
///
/// A model of medians is right for the usual step and wrong for a mean over many: what disturbs a step (other work on
/// the machine, above all) only ever makes it longer. So a profile that was measured carries the distribution itself.
struct step_spread {
  std::vector<double> factors; ///< of the model's time, each as likely as the others; they do not fall. Empty: always 1
  /// The probability that a step has the factor of the step before it on that device; else it draws one. It is the
  /// correlation of a step's factor with the one before: disturbances last longer than a step.
  double kept = 0; ///< from 0 to 1
  friend bool operator==(const step_spread&, const step_spread&) = default;
};

/// The factors of the steps of one device, in their order: a function of the spread and the seed.
class step_factors {
public:
  step_factors(step_spread spread, std::uint64_t seed) : spread_(std::move(spread)), random_(seed) {}
  [[nodiscard]] double next() noexcept {
    if (spread_.factors.empty()) return 1;
    if (current_ == 0 || random_.unit() >= spread_.kept)
      current_ = spread_.factors[random_.below(spread_.factors.size())];
    return current_;
  }

private:
  step_spread spread_;
  protocols::workload::counter_random random_;
  double current_ = 0; ///< 0: there was no step yet
};

} // namespace godwit::gpu::sim
