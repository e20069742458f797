#include "model/unicode/classes.hpp"

#include "model/unicode/tables.hpp"

#include <algorithm>
#include <array>

namespace godwit::gpu::model::unicode {

namespace {

bool within(std::span<const code_range> rows, char32_t code) noexcept {
  const auto after =
      std::upper_bound(rows.begin(), rows.end(), code, [](char32_t c, const code_range& row) { return c < row.first; });
  return after != rows.begin() && code <= std::prev(after)->last;
}

bool is_space(char32_t code) noexcept {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

char_class search(char32_t code) noexcept {
  if (code == '\r' || code == '\n') return char_class::newline;
  if (is_space(code)) return char_class::space;
  if (within(letter_rows(), code)) return char_class::letter;
  return within(number_rows(), code) ? char_class::number : char_class::other;
}

constexpr char_class ascii_class(unsigned code) noexcept {
  if (code == '\r' || code == '\n') return char_class::newline;
  if (code == ' ' || (code >= 0x09 && code <= 0x0D)) return char_class::space;
  if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) return char_class::letter;
  return code >= '0' && code <= '9' ? char_class::number : char_class::other;
}

constexpr auto ascii = [] {
  std::array<char_class, 128> table{};
  for (unsigned code = 0; code < table.size(); ++code) table[code] = ascii_class(code);
  return table;
}();

} // namespace

char_class class_of(char32_t code) noexcept { return code < ascii.size() ? ascii[code] : search(code); }

} // namespace godwit::gpu::model::unicode
