#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/workload/request.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace godwit::protocols::workload {

struct fixed_length {
  std::uint32_t tokens = 1;
  friend bool operator==(const fixed_length&, const fixed_length&) = default;
};

/// Both ends included.
struct uniform_length {
  std::uint32_t low = 1;
  std::uint32_t high = 1;
  friend bool operator==(const uniform_length&, const uniform_length&) = default;
};

/// The generated lengths of Llumnix's evaluation, drawn as its public artifact does: a rank r in 1 .. 2 mean - 1 with
/// probability proportional to r^-alpha; all ranks times mean / (mean of the ranks drawn), rounded up, at most 6,144.
/// So a length depends on the whole sample, not on its own draw alone.
struct power_law_length {
  std::uint32_t mean = 128;
  double alpha = 2.0;
  friend bool operator==(const power_law_length&, const power_law_length&) = default;
};

/// A distribution by some of its quantiles; between two of them the logarithm of the length is linear in the quantile.
struct quantile_length {
  struct knot {
    double quantile;
    double tokens;
  };
  std::span<const knot> knots; ///< ascending, from quantile 0 to quantile 1; of static storage
  friend bool operator==(const quantile_length& a, const quantile_length& b) noexcept {
    return a.knots.data() == b.knots.data();
  }
};

using length_distribution = std::variant<fixed_length, uniform_length, power_law_length, quantile_length>;

/// Prompt and answer are drawn independently: the published tables give nothing but the marginals.
struct length_spec {
  std::string name;
  length_distribution prompt;
  length_distribution answer;
};

inline constexpr std::uint32_t length_tokens_max = 1U << 24U;

/// fixed:IN:OUT · uniform:A-B:C-D · sharegpt · burstgpt · short, medium, long (prompt and answer alike) and their pairs
/// such as short-long; S, M, L (Llumnix's table 1) and 128, 256, 512 (its artifact) are other names of the three: S-L,
/// 128-512.
[[nodiscard]] expected<length_spec, workload_error> parse_lengths(std::string_view name);
/// For help texts: the names above.
[[nodiscard]] std::string_view length_names() noexcept;

/// Every length is at least 1.
[[nodiscard]] std::vector<std::uint32_t> draw_lengths(const length_distribution& distribution, std::size_t count,
                                                      std::uint64_t seed, std::uint64_t stream);

} // namespace godwit::protocols::workload
