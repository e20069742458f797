#pragma once

#include "grammar/terms.hpp"

#include <boost/json/value.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::grammar {

/// Digits that a number of an answer may have: what an int64 and a double hold without loss, so that no reader stumbles
/// and no model counts for ever.
inline constexpr std::uint32_t integer_digits_max = 18;
inline constexpr std::uint32_t fraction_digits_max = 17;
inline constexpr std::uint32_t exponent_digits_max = 2;
/// White space where JSON has it inside: nothing, one blank, or a new line and blanks.
inline constexpr std::uint32_t indentation_max = 32;

[[nodiscard]] term_id white_space(term_table& terms);
[[nodiscard]] term_id any_string(term_table& terms, std::uint32_t least, std::uint32_t most);
[[nodiscard]] term_id any_integer(term_table& terms);
[[nodiscard]] term_id any_number(term_table& terms);

/// The text as a JSON string, each character as it is or by its shortest escape.
[[nodiscard]] std::string quoted(std::string_view text);
/// A value as it is written in answers; white space inside as everywhere.
[[nodiscard]] term_id value_text(term_table& terms, const boost::json::value& value);
/// Called now and then by makers whose work is more than what they make; may throw to end it.
using work_meter = std::function<void()>;
/// Any string, quotes included, that is none of `names`.
[[nodiscard]] term_id string_other_than(term_table& terms, const std::vector<std::string>& names,
                                        const work_meter& spent);

/// A bound of numbers.
struct number_bound {
  bool negative = false;
  std::uint64_t whole = 0;
  std::string fraction; ///< digits without zeros at the end
  bool exclusive = false;
  bool beyond = false; ///< farther from 0 than any number of an answer; the digits are not here
};
/// From an integer or the shortest decimal of a double; absent where its fraction has more digits than the bounds
/// above.
[[nodiscard]] std::optional<number_bound> bound_of(const boost::json::value& number, bool exclusive);
/// Integers between two bounds. nothing: there is none.
[[nodiscard]] term_id integers_between(term_table& terms, const std::optional<number_bound>& low,
                                       const std::optional<number_bound>& high);
/// Decimals between two bounds, without exponents.
[[nodiscard]] term_id numbers_between(term_table& terms, const std::optional<number_bound>& low,
                                      const std::optional<number_bound>& high);

} // namespace godwit::protocols::grammar
