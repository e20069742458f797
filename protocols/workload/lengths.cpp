#include <godwit/protocols/workload/lengths.hpp>
#include <godwit/protocols/workload/random.hpp>

#include "workload/tables.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <optional>

namespace godwit::protocols::workload {

namespace {

constexpr std::string_view known =
    "fixed:IN:OUT, uniform:A-B:C-D, sharegpt, burstgpt, short, medium, long, or a pair of the last three such as "
    "short-long (also S-L, 128-512)";

workload_error unusable(std::string_view name, const std::string& what) {
  constexpr std::size_t shown_max = 80;
  auto shown = std::string(name.substr(0, shown_max));
  return {0, 0, "lengths \"" + shown + "\": " + what};
}

std::optional<std::uint32_t> parse_tokens(std::string_view text) {
  auto tokens = std::uint32_t{0};
  const auto* last = text.data() + text.size();
  const auto [end, ec] = std::from_chars(text.data(), last, tokens);
  if (ec != std::errc{} || end != last || tokens == 0 || tokens > length_tokens_max) return std::nullopt;
  return tokens;
}

std::optional<uniform_length> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto low = parse_tokens(text.substr(0, dash));
  const auto high = parse_tokens(text.substr(dash + 1));
  if (!low || !high || *low > *high) return std::nullopt;
  return uniform_length{*low, *high};
}

// Mean and exponent of the artifact's three generated distributions.
std::optional<power_law_length> parse_power_law(std::string_view name) {
  if (name == "short" || name == "128" || name == "S") return power_law_length{128, 2.0};
  if (name == "medium" || name == "256" || name == "M") return power_law_length{256, 1.5};
  if (name == "long" || name == "512" || name == "L") return power_law_length{512, 1.15};
  return std::nullopt;
}

double quantile(std::span<const quantile_length::knot> knots, double u) {
  const auto above = std::find_if(knots.begin() + 1, knots.end() - 1, [u](const auto& k) { return u < k.quantile; });
  const auto& a = *(above - 1);
  const auto& b = *above;
  const auto part = (u - a.quantile) / (b.quantile - a.quantile);
  return a.tokens * std::pow(b.tokens / a.tokens, part);
}

constexpr double power_law_tokens_max = 6144.0;

std::vector<std::uint32_t> draw(const fixed_length& d, std::size_t count, counter_random&) {
  return std::vector<std::uint32_t>(count, std::max(d.tokens, 1U));
}

std::vector<std::uint32_t> draw(const uniform_length& d, std::size_t count, counter_random& random) {
  assert(d.low <= d.high);
  auto out = std::vector<std::uint32_t>(count);
  const auto width = std::uint64_t{d.high} - d.low + 1;
  for (auto& tokens : out) tokens = std::max(d.low + static_cast<std::uint32_t>(random.below(width)), 1U);
  return out;
}

std::vector<std::uint32_t> draw(const power_law_length& d, std::size_t count, counter_random& random) {
  assert(d.mean >= 1);
  auto cumulative = std::vector<double>(2 * std::size_t{d.mean} - 1);
  auto total = 0.0;
  for (std::size_t i = 0; i < cumulative.size(); ++i)
    cumulative[i] = total += std::pow(static_cast<double>(i + 1), -d.alpha);

  auto ranks = std::vector<double>(count);
  auto sum = 0.0;
  for (auto& rank : ranks) {
    const auto at = std::upper_bound(cumulative.begin(), cumulative.end() - 1, random.unit() * total);
    rank = static_cast<double>(at - cumulative.begin() + 1);
    sum += rank;
  }
  const auto scale = sum > 0.0 ? d.mean * static_cast<double>(count) / sum : 1.0;
  auto out = std::vector<std::uint32_t>(count);
  std::transform(ranks.begin(), ranks.end(), out.begin(), [scale](double rank) {
    return static_cast<std::uint32_t>(std::clamp(std::ceil(rank * scale), 1.0, power_law_tokens_max));
  });
  return out;
}

std::vector<std::uint32_t> draw(const quantile_length& d, std::size_t count, counter_random& random) {
  assert(d.knots.size() >= 2);
  auto out = std::vector<std::uint32_t>(count);
  for (auto& tokens : out)
    tokens = static_cast<std::uint32_t>(std::max(std::llround(quantile(d.knots, random.unit())), 1LL));
  return out;
}

} // namespace

std::string_view length_names() noexcept { return known; }

expected<length_spec, workload_error> parse_lengths(std::string_view name) {
  if (name == "sharegpt")
    return length_spec{std::string(name), quantile_length{sharegpt_prompt}, quantile_length{sharegpt_answer}};
  if (name == "burstgpt")
    return length_spec{std::string(name), quantile_length{burstgpt_prompt}, quantile_length{burstgpt_answer}};
  if (const auto both = parse_power_law(name)) return length_spec{std::string(name), *both, *both};

  const auto colon = name.find(':');
  if (colon == std::string_view::npos) {
    const auto dash = name.find('-');
    const auto prompt = parse_power_law(name.substr(0, dash));
    const auto answer = dash == std::string_view::npos ? prompt : parse_power_law(name.substr(dash + 1));
    if (prompt && answer) return length_spec{std::string(name), *prompt, *answer};
    return unexpected(unusable(name, "unknown; known are " + std::string(known)));
  }
  const auto kind = name.substr(0, colon);
  const auto rest = name.substr(colon + 1);
  const auto second = rest.find(':');
  const auto first_part = rest.substr(0, second);
  const auto second_part = second == std::string_view::npos ? std::string_view{} : rest.substr(second + 1);
  if (kind == "fixed") {
    const auto prompt = parse_tokens(first_part);
    const auto answer = parse_tokens(second_part);
    if (prompt && answer) return length_spec{std::string(name), fixed_length{*prompt}, fixed_length{*answer}};
    return unexpected(unusable(name, "expected fixed:IN:OUT with two numbers of tokens from 1, such as fixed:128:64"));
  }
  if (kind == "uniform") {
    const auto prompt = parse_range(first_part);
    const auto answer = parse_range(second_part);
    if (prompt && answer) return length_spec{std::string(name), *prompt, *answer};
    return unexpected(
        unusable(name, "expected uniform:A-B:C-D with tokens from 1, A <= B and C <= D, such as uniform:16-256:1-64"));
  }
  return unexpected(unusable(name, "unknown; known are " + std::string(known)));
}

std::vector<std::uint32_t> draw_lengths(const length_distribution& distribution, std::size_t count, std::uint64_t seed,
                                        std::uint64_t stream) {
  auto random = counter_random(seed, stream);
  return std::visit([&](const auto& d) { return draw(d, count, random); }, distribution);
}

} // namespace godwit::protocols::workload
