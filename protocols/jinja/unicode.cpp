#include "jinja/unicode.hpp"

namespace godwit::protocols::jinja {

namespace {

bool continues(std::string_view bytes, std::size_t at) noexcept {
  return at < bytes.size() && (static_cast<unsigned char>(bytes[at]) & 0xc0U) == 0x80U;
}

std::uint32_t decode(std::string_view bytes, std::size_t at, std::size_t length) noexcept {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i]));
  };
  switch (length) {
  case 2:
    return ((byte(0) & 0x1fU) << 6U) | (byte(1) & 0x3fU);
  case 3:
    return ((byte(0) & 0x0fU) << 12U) | ((byte(1) & 0x3fU) << 6U) | (byte(2) & 0x3fU);
  case 4:
    return ((byte(0) & 0x07U) << 18U) | ((byte(1) & 0x3fU) << 12U) | ((byte(2) & 0x3fU) << 6U) | (byte(3) & 0x3fU);
  default:
    return byte(0);
  }
}

bool is_space(std::uint32_t code) noexcept {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

std::uint32_t upper(std::uint32_t c) noexcept {
  if (c >= 'a' && c <= 'z') return c - 32;
  if ((c >= 0xe0 && c <= 0xfe && c != 0xf7) || (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f))
    return c - 32;
  if (c >= 0x450 && c <= 0x45f) return c - 80;
  if ((c >= 0x100 && c <= 0x12f) || (c >= 0x14a && c <= 0x177) || (c >= 0x460 && c <= 0x481)) return c & ~1U;
  return c;
}

std::uint32_t lower(std::uint32_t c) noexcept {
  if (c >= 'A' && c <= 'Z') return c + 32;
  if ((c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9 && c != 0x3a2) || (c >= 0x410 && c <= 0x42f))
    return c + 32;
  if (c >= 0x400 && c <= 0x40f) return c + 80;
  if ((c >= 0x100 && c <= 0x12f) || (c >= 0x14a && c <= 0x177) || (c >= 0x460 && c <= 0x481)) return c | 1U;
  return c;
}

template <class Map> std::string mapped(std::string_view bytes, Map map) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto length = character_bytes(bytes, at);
    const auto first = static_cast<unsigned char>(bytes[at]);
    if (length == 2 || (length == 1 && first < 0x80))
      append_utf8(out, map(decode(bytes, at, length)));
    else
      out.append(bytes, at, length);
    at += length;
  }
  return out;
}

} // namespace

std::size_t character_bytes(std::string_view bytes, std::size_t at) noexcept {
  const auto first = static_cast<unsigned char>(bytes[at]);
  const std::size_t length = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues(bytes, at + i)) return 1;
  return length;
}

std::size_t count_characters(std::string_view bytes) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); at += character_bytes(bytes, at)) ++count;
  return count;
}

std::size_t character_offset(std::string_view bytes, std::size_t index, std::size_t from) noexcept {
  for (; index > 0 && from < bytes.size(); --index) from += character_bytes(bytes, from);
  return from;
}

void append_utf8(std::string& out, std::uint32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0U | (code >> 6U));
    return add(0x80U | (code & 0x3fU));
  }
  if (code < 0x10000) {
    add(0xe0U | (code >> 12U));
  } else {
    add(0xf0U | (code >> 18U));
    add(0x80U | ((code >> 12U) & 0x3fU));
  }
  add(0x80U | ((code >> 6U) & 0x3fU));
  add(0x80U | (code & 0x3fU));
}

std::size_t space_at(std::string_view bytes, std::size_t at) noexcept {
  if (at >= bytes.size()) return 0;
  if (const auto first = static_cast<unsigned char>(bytes[at]); first < 0x80) return is_space(first) ? 1 : 0;
  const auto length = character_bytes(bytes, at);
  if (length == 1) return 0;
  return is_space(decode(bytes, at, length)) ? length : 0;
}

std::size_t trimmed_begin(std::string_view bytes) noexcept {
  std::size_t at = 0;
  while (const auto space = space_at(bytes, at)) at += space;
  return at;
}

std::size_t trimmed_end(std::string_view bytes) noexcept {
  auto end = bytes.size();
  while (end > 0) {
    auto at = end - 1;
    while (at > 0 && end - at < 4 && continues(bytes, at)) --at;
    if (space_at(bytes.substr(0, end), at) != end - at) break;
    end = at;
  }
  return end;
}

std::string upper_case(std::string_view bytes) {
  auto out = mapped(bytes, upper);
  constexpr std::string_view sharp_s = "\xc3\x9f"; // has no capital in general use
  for (auto at = out.find(sharp_s); at != std::string::npos; at = out.find(sharp_s, at)) out.replace(at, 2, "SS");
  return out;
}
std::string lower_case(std::string_view bytes) { return mapped(bytes, lower); }

} // namespace godwit::protocols::jinja
