#include "jinja/numbers.hpp"

#include "jinja/unicode.hpp"

#include <charconv>
#include <cmath>

namespace godwit::protocols::jinja {

namespace {

using result = expected<value, std::string>;

result out_of_range() { return unexpected(std::string("a number is out of range")); }
result by_zero() { return unexpected(std::string("a division by zero")); }

result power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return by_zero();
    return value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t out = 1;
  if (base == 0 || base == 1) return value(exponent == 0 ? std::int64_t{1} : base);
  if (base == -1) return value(exponent % 2 == 0 ? std::int64_t{1} : std::int64_t{-1});
  for (; exponent > 0; --exponent) // at most 63 rounds
    if (__builtin_mul_overflow(out, base, &out)) return out_of_range();
  return value(out);
}

std::string_view trimmed(std::string_view bytes) {
  bytes = bytes.substr(0, trimmed_end(bytes));
  return bytes.substr(trimmed_begin(bytes));
}

/// Which base a letter behind a 0 stands for; 0: none.
std::int64_t base_of(char letter) {
  switch (letter) {
  case 'x':
  case 'X':
    return 16;
  case 'o':
  case 'O':
    return 8;
  case 'b':
  case 'B':
    return 2;
  default:
    return 0;
  }
}

} // namespace

result calculate(std::string_view name, std::int64_t left, std::int64_t right) {
  std::int64_t out = 0;
  if (name == "+") return __builtin_add_overflow(left, right, &out) ? out_of_range() : result(value(out));
  if (name == "-") return __builtin_sub_overflow(left, right, &out) ? out_of_range() : result(value(out));
  if (name == "*") return __builtin_mul_overflow(left, right, &out) ? out_of_range() : result(value(out));
  if (name == "**") return power(left, right);
  if (right == 0) return by_zero();
  if (name == "/") return value(static_cast<double>(left) / static_cast<double>(right));
  if (right == -1) // INT64_MIN / -1
    return name == "%" ? result(value(std::int64_t{0})) : calculate("-", 0, left);
  const auto remainder = left % right;
  const bool below = remainder != 0 && (remainder < 0) != (right < 0); // Python rounds down
  if (name == "//") return value(left / right - (below ? 1 : 0));
  return value(below ? remainder + right : remainder);
}

result calculate(std::string_view name, double left, double right) {
  if (name == "+") return value(left + right);
  if (name == "-") return value(left - right);
  if (name == "*") return value(left * right);
  if (name == "**") {
    if (left == 0.0 && right < 0.0) return by_zero();
    const auto out = std::pow(left, right);
    return std::isfinite(out) ? result(value(out)) : out_of_range();
  }
  if (right == 0.0) return by_zero();
  if (name == "/") return value(left / right);
  if (name == "//") return value(std::floor(left / right));
  auto remainder = std::fmod(left, right);
  if (remainder != 0.0 && (remainder < 0.0) != (right < 0.0)) remainder += right;
  return value(remainder);
}

std::string show_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[400];
  const auto size = std::abs(number);
  const bool plain = size == 0.0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string out(buffer, end);
  if (plain && out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::optional<std::int64_t> parse_integer(std::string_view bytes, std::int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  bytes = trimmed(bytes);
  std::string digits;
  if (bytes.starts_with('+') || bytes.starts_with('-')) {
    if (bytes[0] == '-') digits = "-";
    bytes.remove_prefix(1);
  }
  const auto marked = bytes.starts_with('0') && bytes.size() > 1 ? base_of(bytes[1]) : 0;
  const bool prefixed = marked != 0 && (base == 0 || base == marked);
  if (prefixed) bytes.remove_prefix(bytes.substr(2).starts_with('_') ? 3 : 2);
  if (base == 0) base = prefixed ? marked : 10;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '_')
      digits += bytes[i];
    else if (i == 0 || i + 1 == bytes.size() || bytes[i + 1] == '_')
      return std::nullopt;
  }
  std::int64_t out = 0;
  const auto* end = digits.data() + digits.size();
  const auto [at, problem] = std::from_chars(digits.data(), end, out, static_cast<int>(base));
  if (bytes.empty() || bytes[0] == '-' || problem != std::errc{} || at != end) return std::nullopt;
  return out;
}

std::optional<double> parse_real(std::string_view bytes) {
  bytes = trimmed(bytes);
  if (bytes.starts_with('+') && !bytes.starts_with("+-")) bytes.remove_prefix(1);
  double out = 0;
  const auto [at, problem] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), out);
  if (bytes.empty() || problem != std::errc{} || at != bytes.data() + bytes.size()) return std::nullopt;
  return out;
}

} // namespace godwit::protocols::jinja
