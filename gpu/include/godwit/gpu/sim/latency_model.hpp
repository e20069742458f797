#pragma once

#include <godwit/gpu/sim/step_spread.hpp>
#include <godwit/protocols/batching/step.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace godwit::gpu::sim {

struct profile;

/// A time by a count, as measured: linear between two points, that of the first point below it, in proportion beyond
/// the last one. Empty: always 0.
struct step_table {
  struct point {
    std::uint32_t count = 0;
    double us = 0;
    friend bool operator==(const point&, const point&) = default;
  };
  std::vector<point> points; ///< counts rise and are above 0; times do not fall from the second on
  [[nodiscard]] double at(std::uint32_t count) const noexcept;
  friend bool operator==(const step_table&, const step_table&) = default;
};

/// How long a step takes.
///
/// A sum: a base, the linear layers by the step's tokens (few are bound by reading the weights, many by computing), the
/// logits by the rows drawn from, the copied blocks, and attention for each slice, which is bound either by the KV it
/// reads (a token that decodes) or by the pairs of positions it computes (a chunk of a prompt meets all positions
/// before it and its own: quadratic). The default is the profile "toy", a device of round numbers for tests.
struct latency_model {
  double base_us = 2000;
  double per_decode_us = 20;    ///< for each slice of one token: what an engine does for every sequence
  step_table linear;            ///< by tokens in the step; 30 us each
  step_table logits;            ///< by slices that sample
  double per_kv_token_us = 0.2; ///< for each position that a slice reads
  /// Where it is not empty: by all positions that the slices of one token read together, instead of per_kv_token_us for
  /// each. For devices whose caches make the first of them cheaper.
  step_table kv;
  double per_pair_us = 0; ///< for each pair of a new position and one at or before it
  double per_copy_us = 0; ///< for each block copied before the step
  /// Of the time that `step_time` says, which is the one of most steps.
  step_spread spread;

  latency_model();
  explicit latency_model(const profile& from);

  [[nodiscard]] std::chrono::nanoseconds step_time(const protocols::step_input& input) const;
  /// Attention of `tokens` new positions after `first` earlier ones, in us.
  [[nodiscard]] double attention_us(std::uint32_t first, std::uint32_t tokens) const noexcept;
  friend bool operator==(const latency_model&, const latency_model&) = default;
};

} // namespace godwit::gpu::sim
