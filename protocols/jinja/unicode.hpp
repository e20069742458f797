#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Characters of UTF-8 strings, as far as templates ask. Bytes that are no UTF-8 count as one character each.
namespace godwit::protocols::jinja {

/// Bytes of the character that begins at `at`, at least 1.
[[nodiscard]] std::size_t character_bytes(std::string_view bytes, std::size_t at) noexcept;
[[nodiscard]] std::size_t count_characters(std::string_view bytes) noexcept;
/// Where character `index` begins; the end where there are fewer.
[[nodiscard]] std::size_t character_offset(std::string_view bytes, std::size_t index, std::size_t from = 0) noexcept;
/// What is no character becomes U+FFFD.
void append_utf8(std::string& out, std::uint32_t code);

/// Bytes of the white space at `at`; 0 where there is none. White space is what Python's str.isspace calls so.
[[nodiscard]] std::size_t space_at(std::string_view bytes, std::size_t at) noexcept;
/// Bytes of the end of a line at `at`, as Python's str.splitlines has them; 0 where there is none.
[[nodiscard]] std::size_t line_end_at(std::string_view bytes, std::size_t at) noexcept;
/// Of one character. Beyond ASCII by its block: whatever is no block of signs, marks or pictures.
[[nodiscard]] bool is_letter(std::string_view character) noexcept;
/// Where the text begins behind leading white space.
[[nodiscard]] std::size_t trimmed_begin(std::string_view bytes) noexcept;
/// Where it ends before trailing white space.
[[nodiscard]] std::size_t trimmed_end(std::string_view bytes) noexcept;

/// Letters of Latin (U+0000 to U+017F, U+1E00 to U+1EFF), Greek (U+0386 to U+03CE) and Cyrillic; others stay.
[[nodiscard]] std::string upper_case(std::string_view bytes);
[[nodiscard]] std::string lower_case(std::string_view bytes);

} // namespace godwit::protocols::jinja
