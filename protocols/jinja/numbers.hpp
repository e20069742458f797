#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/jinja/value.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Python's arithmetic.
namespace godwit::protocols::jinja {

/// `name` is + - * / // % **. The error says why there is no result.
[[nodiscard]] expected<value, std::string> calculate(std::string_view name, std::int64_t left, std::int64_t right);
[[nodiscard]] expected<value, std::string> calculate(std::string_view name, double left, double right);

/// As Python's repr: the shortest text that gives the number back, always with a point or an exponent.
[[nodiscard]] std::string show_real(double number);
/// The whole text, white space around it aside; none beyond int64. As Python's int(): with single underscores between
/// the digits and, where it fits the base, 0x, 0o or 0b in front; base 0 goes by these. None for other bases than 0 and
/// 2 to 36.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view bytes, std::int64_t base = 10);
/// The whole text, white space around it aside.
[[nodiscard]] std::optional<double> parse_real(std::string_view bytes);

} // namespace godwit::protocols::jinja
