#pragma once

#include "grammar/terms.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::grammar {

/// Unicode scalar values, as sorted ranges that do not touch.
class character_set {
public:
  struct range {
    char32_t first;
    char32_t last;
  };
  character_set() = default;
  character_set(char32_t first, char32_t last) { add(first, last); }
  /// Of ranges in any order, none of them backwards.
  explicit character_set(std::vector<range> all);
  void add(char32_t first, char32_t last);
  void add(const character_set& other);
  [[nodiscard]] character_set complement() const;
  [[nodiscard]] character_set without(const character_set& other) const;
  [[nodiscard]] const std::vector<range>& ranges() const noexcept { return ranges_; }
  [[nodiscard]] bool contains(char32_t c) const noexcept;

private:
  std::vector<range> ranges_;
};

inline constexpr char32_t highest_character = 0x10FFFF;

/// One character of the set, as UTF-8; surrogates are none.
[[nodiscard]] term_id utf8_of(term_table& terms, const character_set& set);
/// One character of the set as it stands in a JSON string: as it is, or where it cannot be, by its shortest escape.
[[nodiscard]] term_id in_json_string(term_table& terms, const character_set& set);
/// One character of a JSON string in any way of writing it.
[[nodiscard]] term_id any_json_character(term_table& terms);

/// The characters of valid UTF-8.
[[nodiscard]] std::u32string characters_of(std::string_view utf8);

} // namespace godwit::protocols::grammar
