#include "log/escape.hpp"

#include <array>
#include <cstdio>

namespace godwit::runtime::log {

namespace {

struct decoded {
  char32_t code = 0xFFFD;
  std::size_t bytes = 1;
  bool valid = false;
};

// One character of UTF-8, without overlong forms and surrogates (RFC 3629).
decoded decode(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t n = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || s.size() < n) return {};
  auto code = static_cast<char32_t>(first & (0xFF >> (n + 1)));
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const auto overlong = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, n, true};
}

// What moves the cursor, ends a line or turns the direction of writing in some terminal or viewer.
bool disruptive(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 || c == 0x061C || c == 0x200E ||
         c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

void append_code(std::string& out, const char* form, unsigned code) {
  auto text = std::array<char, 16>{};
  const auto n = std::snprintf(text.data(), text.size(), form, code);
  out.append(text.data(), static_cast<std::size_t>(n));
}

} // namespace

void append_escaped(std::string& out, std::string_view text, escape how) {
  while (!text.empty()) {
    const auto c = decode(text);
    const auto bytes = text.substr(0, c.bytes);
    text.remove_prefix(c.bytes);
    if (!c.valid)
      out.append("\xEF\xBF\xBD");
    else if (how == escape::nothing)
      out.append(bytes);
    else if (c.code == '\\')
      out.append("\\\\");
    else if (c.code == '"' && how != escape::text)
      out.append("\\\"");
    else if (!disruptive(c.code))
      out.append(bytes);
    else if (c.code == '\n')
      out.append("\\n");
    else if (c.code == '\r')
      out.append("\\r");
    else if (c.code == '\t')
      out.append("\\t");
    else if (how == escape::json)
      append_code(out, "\\u%04x", static_cast<unsigned>(c.code)); // none of them lies beyond U+FFFF
    else
      append_code(out, c.code < 0x80 ? "\\x%02x" : "\\u{%04x}", static_cast<unsigned>(c.code));
  }
}

} // namespace godwit::runtime::log
