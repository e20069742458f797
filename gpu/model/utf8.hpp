#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::gpu::model {

enum class utf8_state : std::uint8_t {
  whole,     ///< a character
  invalid,   ///< `length` bytes that cannot become one; together one U+FFFD (as Unicode 3.9 and Rust count them)
  unfinished ///< the text ends within a character
};

struct utf8_char {
  char32_t code = 0xFFFD;
  std::uint8_t length = 0;
  utf8_state state = utf8_state::whole;
};

/// The character at text[at]; `at` must be inside.
[[nodiscard]] utf8_char read_utf8(std::string_view text, std::size_t at) noexcept;

void append_utf8(std::string& out, char32_t code);

[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// Appends `bytes` as UTF-8, what is invalid as U+FFFD. Unless `last`, stops before an unfinished character at the end.
/// Returns the bytes consumed.
std::size_t append_valid(std::string& out, std::string_view bytes, bool last);

} // namespace godwit::gpu::model
