#pragma once

#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/protocols/batching/step.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::main {

/// Sizes of a step, as far as its time depends on them.
struct step_shape {
  struct part {
    std::uint32_t sequences = 1;
    std::uint32_t first = 0;  ///< positions before it
    std::uint32_t tokens = 1; ///< new ones
    bool samples = false;
  };
  std::vector<part> parts;
  [[nodiscard]] std::uint32_t sequences() const noexcept;
  [[nodiscard]] std::uint32_t tokens() const noexcept;
  /// KV blocks that its sequences fill.
  [[nodiscard]] std::uint64_t blocks() const noexcept;
  /// A step of that shape: each sequence has blocks of its own, numbered from 0, and tokens of its own below
  /// `vocabulary`, since of a mixture equal ones go to the same experts.
  [[nodiscard]] protocols::step_input input(std::uint32_t vocabulary = 8) const;
};
[[nodiscard]] std::string to_string(const step_shape& shape);

/// What a measured step is for.
enum class step_role : std::uint8_t {
  linear,  ///< the table of the linear layers: many short prompts, nothing drawn
  logits,  ///< the table of the logits: sequences of one token, all drawn from
  decode,  ///< attention of tokens that decode
  prefill, ///< attention of chunks
  check    ///< not fitted: mixed steps that tell how good the fit is
};
[[nodiscard]] std::string to_string(step_role role);

struct step_sample {
  step_role role;
  step_shape shape;
  double us = 0; ///< median
};

/// The latency model that fits the samples: tables through what was measured (made monotone but for the first
/// point, since noise must not reward tokens), attention's two rates by least squares of relative errors.
[[nodiscard]] gpu::sim::latency_model fit_steps(const std::vector<step_sample>& samples);

/// A step as it ran on one instance while that served.
struct served_step {
  step_shape shape;
  double us = 0; ///< from its begin to its completion; 0: it never completed
  /// From its completion to the begin of the next step, where nothing but the actors was waited for.
  std::optional<double> pause_us;
};

/// What a device's steps take longer when they are served.
struct served_costs {
  double overhead_us = 0;       ///< between two steps
  double per_decode_us = 0;     ///< the same, for each sequence that decoded in the first of them
  gpu::sim::step_spread spread; ///< of steps, pauses included, about what the device's model and these two say
  std::size_t steps = 0;        ///< that were looked at
};

/// The costs that make the device's model (whose `base_us` and `per_decode_us` are 0) say what serving took.
///
/// A line through the medians of pauses by how many sequences decoded gives the two costs. The spread has 20 factors:
/// steps by the factor by which they took longer than that, cut into shares of equal time, and the mean of each. So the
/// mean of all is what all steps together took longer, whatever of it the model of the device does not know; `kept` is
/// the rank correlation of one step's factor with the next one's. No spread with fewer than 40 steps, which say little.
/// Throws std::runtime_error where there are no pauses.
[[nodiscard]] served_costs fit_served(const gpu::sim::latency_model& device,
                                      const std::vector<std::vector<served_step>>& instances);
/// Of values that there are; the upper one of two in the middle.
[[nodiscard]] double median(std::vector<double> values);

/// 1 where there are none.
[[nodiscard]] double mean_factor(const gpu::sim::step_spread& spread);

[[nodiscard]] double predicted_us(const gpu::sim::latency_model& model, const step_shape& shape);

/// Of predictions against measurements, as shares of what was measured.
struct fit_error {
  std::size_t steps = 0;
  double mean = 0; ///< of absolute errors
  double max = 0;
  double bias = 0; ///< mean with sign; above 0: predicted too slow
};
[[nodiscard]] fit_error error_of(const gpu::sim::latency_model& model, const std::vector<step_sample>& samples,
                                 step_role role);

} // namespace godwit::main
