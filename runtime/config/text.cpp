#include "config/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <godwit/runtime/config/nearest.hpp>
#include <numeric>

namespace godwit::runtime::config {

namespace {

struct unit {
  std::string_view name;
  std::uint64_t size;
};

constexpr std::array time_units{
    unit{"h", 3'600'000'000'000}, unit{"m", 60'000'000'000}, unit{"s", 1'000'000'000},
    unit{"ms", 1'000'000},        unit{"us", 1'000},         unit{"ns", 1},
};
constexpr std::array size_units{
    unit{"TiB", 1ULL << 40},
    unit{"TB", 1'000'000'000'000},
    unit{"GiB", 1ULL << 30},
    unit{"GB", 1'000'000'000},
    unit{"MiB", 1ULL << 20},
    unit{"MB", 1'000'000},
    unit{"KiB", 1ULL << 10},
    unit{"kB", 1'000},
    unit{"B", 1},
};

template <class T> std::optional<T> parse_number(std::string_view text) {
  auto x = T{};
  const auto* last = text.data() + text.size();
  const auto [end, ec] = std::from_chars(text.data(), last, x);
  if (ec != std::errc{} || end != last) return std::nullopt;
  return x;
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// number * size: what is left over beyond a whole number is cut off where `cuts`, and an error otherwise. Exact: 4.1 is
// no double.
std::optional<std::uint64_t> scaled(std::string_view number, std::uint64_t size, bool cuts) {
  const auto point = std::min(number.find('.'), number.size());
  const auto before = number.substr(0, point);
  const auto behind = number.substr(std::min(point + 1, number.size()));
  if (before.empty() && behind.empty()) return std::nullopt;
  if (behind.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  std::uint64_t rest = 0; // tenths of tenths ..., from the last digit
  for (auto digit = behind.rbegin(); digit != behind.rend(); ++digit) {
    rest += static_cast<std::uint64_t>(*digit - '0') * size;
    if (rest % 10 != 0 && !cuts) return std::nullopt;
    rest /= 10;
  }
  const auto whole = parse_number<std::uint64_t>(before.empty() ? "0" : before);
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  if (!whole || *whole > (most - rest) / size) return std::nullopt;
  return *whole * size + rest;
}

// Cuts a leading number off. "1.5GiB" -> "1.5", leaving "GiB".
std::string_view take_number(std::string_view& text) {
  const auto n = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto number = text.substr(0, n);
  text = trimmed(text.substr(n));
  return number;
}

template <std::size_t N> std::string in_units(std::uint64_t x, const std::array<unit, N>& units) {
  for (const auto& u : units)
    if (x != 0 && x % u.size == 0) return std::to_string(x / u.size) + std::string(u.name);
  return "0" + std::string(units.back().name);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  auto row = std::vector<std::size_t>(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

} // namespace

std::optional<bool> parse_bool(std::string_view text) {
  for (const auto* yes : {"true", "on", "yes", "1"})
    if (same_letters(text, yes)) return true;
  for (const auto* no : {"false", "off", "no", "0"})
    if (same_letters(text, no)) return false;
  return std::nullopt;
}

std::optional<value> parse_integer(std::string_view text) {
  auto digits = std::string(trimmed(text));
  std::erase(digits, '_'); // as in TOML: 100_000
  if (const auto x = parse_number<std::int64_t>(digits)) return *x;
  if (const auto x = parse_number<std::uint64_t>(digits)) return *x;
  return std::nullopt;
}

std::optional<double> parse_real(std::string_view text) {
  const auto x = parse_number<double>(trimmed(text));
  return x && std::isfinite(*x) ? x : std::nullopt;
}

std::optional<std::int64_t> parse_duration(std::string_view text) {
  text = trimmed(text);
  if (text == "0") return 0;
  const auto negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  auto total = std::uint64_t{0};
  while (!text.empty()) {
    const auto number = take_number(text);
    const auto name = text.substr(0, std::min(text.find_first_of("0123456789. "), text.size()));
    const auto* u = std::find_if(time_units.begin(), time_units.end(), [&](const unit& x) { return x.name == name; });
    if (u == time_units.end()) return std::nullopt;
    const auto part = scaled(number, u->size, false);
    if (!part || *part > std::uint64_t{1} << 62 || total > std::uint64_t{1} << 62) return std::nullopt;
    total += *part;
    text = trimmed(text.substr(name.size()));
  }
  if (total > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return negative ? -static_cast<std::int64_t>(total) : static_cast<std::int64_t>(total);
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  text = trimmed(text);
  const auto number = take_number(text);
  if (text.empty()) return scaled(number, 1, false);
  for (const auto& u : size_units)
    if (same_letters(text, u.name)) return scaled(number, u.size, u.size % 1024 == 0);
  return std::nullopt;
}

std::string duration_text(std::int64_t nanoseconds) {
  if (nanoseconds < 0) return "-" + in_units(static_cast<std::uint64_t>(-(nanoseconds + 1)) + 1, time_units);
  return nanoseconds == 0 ? "0s" : in_units(static_cast<std::uint64_t>(nanoseconds), time_units);
}

std::string bytes_text(std::uint64_t bytes) {
  // Powers of 1024 only: one notation on output, two on input.
  constexpr std::array binary{unit{"TiB", 1ULL << 40}, unit{"GiB", 1ULL << 30}, unit{"MiB", 1ULL << 20},
                              unit{"KiB", 1ULL << 10}, unit{"B", 1}};
  return in_units(bytes, binary);
}

std::string real_text(double x) {
  auto digits = std::array<char, 32>{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), x).ptr;
  auto text = std::string(digits.data(), end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  auto best = std::string();
  // A third of the letters wrong is no slip any more, of a few letters two; a very long word would only cost time.
  auto limit = word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 3);
  if (word.size() > 200) return best;
  for (const auto& candidate : candidates) {
    const auto distance = edit_distance(word, candidate);
    if (distance > limit || (distance == limit && !best.empty())) continue;
    limit = distance;
    best = candidate;
  }
  return best;
}

} // namespace godwit::runtime::config
