#pragma once

#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/protocols/batching/step.hpp>

#include <cstdint>
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
  /// A step of that shape: each sequence has blocks of its own, numbered from 0.
  [[nodiscard]] protocols::step_input input() const;
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

/// How steps of one shape lie about their medians. `factors`: measured times over their medians in the order of
/// measuring, every second step of a device. The spread has 20 factors, the means of as many shares of the sorted ones,
/// so it has their mean; `kept` is the root of the rank correlation of one with the next (two steps on). Empty with
/// fewer than 40, which say little.
[[nodiscard]] gpu::sim::step_spread fit_spread(const std::vector<double>& factors);
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
