#include "model/utf8.hpp"

namespace godwit::gpu::model {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

struct lead_byte {
  std::uint8_t length = 0; ///< 0: no character starts so
  std::uint8_t low = 0x80; ///< what the second byte may be
  std::uint8_t high = 0xBF;
};

/// Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF.
constexpr lead_byte lead(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

} // namespace

utf8_char read_utf8(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto first = byte(at);
  if (first < 0x80) return {first, 1, utf8_state::whole};
  const auto start = lead(first);
  if (start.length == 0) return {0xFFFD, 1, utf8_state::invalid};
  char32_t code = first & (0x7FU >> start.length);
  for (std::uint8_t i = 1; i < start.length; ++i) {
    if (at + i >= text.size()) return {0xFFFD, i, utf8_state::unfinished};
    const auto next = byte(at + i);
    const auto low = i == 1 ? start.low : std::uint8_t{0x80};
    const auto high = i == 1 ? start.high : std::uint8_t{0xBF};
    if (next < low || next > high) return {0xFFFD, i, utf8_state::invalid};
    code = (code << 6U) | (next & 0x3FU);
  }
  return {code, start.length, utf8_state::whole};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<std::uint8_t>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto character = read_utf8(text, at);
    if (character.state != utf8_state::whole) return false;
    at += character.length;
  }
  return true;
}

std::size_t append_valid(std::string& out, std::string_view bytes, bool last) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto character = read_utf8(bytes, at);
    if (character.state == utf8_state::unfinished && !last) break;
    out += character.state == utf8_state::whole ? bytes.substr(at, character.length) : replacement;
    at += character.length;
  }
  return at;
}

} // namespace godwit::gpu::model
