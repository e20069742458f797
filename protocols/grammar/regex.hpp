#pragma once

#include "grammar/characters.hpp"
#include "grammar/terms.hpp"

#include <godwit/protocols/expected.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace godwit::protocols::grammar {

inline constexpr std::size_t pattern_bytes_max = 4096;
inline constexpr std::uint32_t pattern_repeats_max = 4096;

/// How a pattern's characters are written in the text.
struct pattern_context {
  /// One character of a set.
  std::function<term_id(const character_set&)> character;
  /// What may stand before and after a match that is not anchored; `empty`: a match is the whole text.
  term_id around = term_table::empty;
};

/// The texts that match a regular expression (ECMA 262's syntax, without what is not regular): literals, `.`, classes,
/// \d \w \s and their opposites, \t \n \r \f \v \xHH \uHHHH \u{H}, groups, alternatives, * + ? {n} {n,} {n,m} (lazy
/// ones too), ^ at the beginning and $ at the end of the pattern or of an alternative of it. Everything else is refused
/// by name.
[[nodiscard]] expected<term_id, std::string> compile_pattern(term_table& terms, std::string_view pattern,
                                                             const pattern_context& context);

/// Of the `matches` that compile_pattern made of a pattern that is searched for, those of `least` to `most` characters.
/// Absent: the pattern is neither one whose matches all have so many, nor one character repeated.
[[nodiscard]] std::optional<term_id> matches_of_length(term_table& terms, term_id matches, std::string_view pattern,
                                                       std::uint32_t least, std::uint32_t most);

} // namespace godwit::protocols::grammar
