#include <godwit/protocols/openai/json_text.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace godwit::protocols::openai {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD"; // U+FFFD

constexpr bool continues(unsigned char byte) noexcept { return (byte & 0xC0U) == 0x80U; }

/// Length of the well-formed UTF-8 sequence at the front (Unicode 15, table 3-7), 0 where there is none. `bad` is then
/// the number of bytes that one replacement character stands for.
std::size_t utf8_length(std::string_view text, std::size_t& bad) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto lead = byte(0);
  bad = 1;
  if (lead < 0x80U) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80U, high = 0xBFU; // of the second byte
  if (lead >= 0xC2U && lead <= 0xDFU)
    length = 2;
  else if (lead >= 0xE0U && lead <= 0xEFU) {
    length = 3;
    if (lead == 0xE0U) low = 0xA0U;
    if (lead == 0xEDU) high = 0x9FU; // no surrogates
  } else if (lead >= 0xF0U && lead <= 0xF4U) {
    length = 4;
    if (lead == 0xF0U) low = 0x90U;
    if (lead == 0xF4U) high = 0x8FU;
  } else
    return 0;
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return 0;
  for (bad = 2; bad < length; ++bad)
    if (bad >= text.size() || !continues(byte(bad))) return 0;
  return length;
}

void append_escape(std::string& out, unsigned char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  switch (c) {
  case '"':
    out += "\\\"";
    return;
  case '\\':
    out += "\\\\";
    return;
  case '\n':
    out += "\\n";
    return;
  case '\r':
    out += "\\r";
    return;
  case '\t':
    out += "\\t";
    return;
  case '\b':
    out += "\\b";
    return;
  case '\f':
    out += "\\f";
    return;
  default:
    break;
  }
  out += "\\u00";
  out += digits[c >> 4U];
  out += digits[c & 15U];
}

} // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    std::size_t length = 1;
    if (first < 0x20U || first == '"' || first == '\\' || first == 0x7FU)
      append_escape(out, first);
    else {
      std::size_t bad = 0;
      length = utf8_length(text, bad);
      out += length > 0 ? text.substr(0, length) : replacement;
      if (length == 0) length = bad;
    }
    text.remove_prefix(length);
  }
  out += '"';
}

std::size_t first_not_utf8(std::string_view text) noexcept {
  std::size_t at = 0, bad = 0;
  while (at < text.size()) {
    const auto length = utf8_length(text.substr(at), bad);
    if (length == 0) return at;
    at += length;
  }
  return at;
}

std::string json_string(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return out;
}

void append_json_number(std::string& out, float value) {
  if (!std::isfinite(value)) value = value > 0 ? 9999.0F : -9999.0F;
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

} // namespace godwit::protocols::openai
