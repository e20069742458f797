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

/// Signs, marks and what is nothing yet beyond ASCII, block by block.
struct range {
  std::uint32_t first;
  std::uint32_t last;
};
constexpr range signs[] = {
    {0x80, 0xa9},     {0xab, 0xb4},     {0xb6, 0xb9},     {0xbb, 0xbf},     {0xd7, 0xd7},       {0xf7, 0xf7},
    {0x2c2, 0x2c5},   {0x2d2, 0x2df},   {0x2ef, 0x36f},   {0x37e, 0x37e},   {0x384, 0x385},     {0x387, 0x387},
    {0x482, 0x489},   {0x2000, 0x2070}, {0x2072, 0x207e}, {0x2080, 0x208f}, {0x209d, 0x2101},   {0x214f, 0x2182},
    {0x2185, 0x2bff}, {0x2e00, 0x2e2e}, {0x2e30, 0x3004}, {0x3007, 0x3030}, {0xd800, 0xf8ff},   {0xfdfc, 0xfe6f},
    {0xfefd, 0xff20}, {0xff3b, 0xff40}, {0xff5b, 0xff65}, {0xffdd, 0xffff}, {0x1eebc, 0x1ffff}, {0x3134b, 0x10ffff}};

/// Capitals whose small letters lie `distance` above them.
struct shifted {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t distance;
};
constexpr shifted shifts[] = {{0xc0, 0xd6, 32},   {0xd8, 0xde, 32},   {0x386, 0x386, 38}, {0x388, 0x38a, 37},
                              {0x38c, 0x38c, 64}, {0x38e, 0x38f, 63}, {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32},
                              {0x400, 0x40f, 80}, {0x410, 0x42f, 32}, {0x4c0, 0x4c0, 15}};

/// Capitals that are each followed by their small letter; the first is one.
constexpr range alternations[] = {{0x100, 0x12f}, {0x132, 0x137},   {0x139, 0x148},  {0x14a, 0x177},
                                  {0x179, 0x17e}, {0x460, 0x481},   {0x48a, 0x4bf},  {0x4c1, 0x4ce},
                                  {0x4d0, 0x52f}, {0x1e00, 0x1e95}, {0x1ea0, 0x1eff}};

struct pair {
  std::uint32_t from;
  std::uint32_t to;
};
constexpr pair only_upper[] = {{0xb5, 0x39c}, {0xff, 0x178},  {0x131, 'I'},
                               {0x17f, 'S'},  {0x3c2, 0x3a3}, {0x1e9b, 0x1e60}};
constexpr pair only_lower[] = {{0x178, 0xff}, {0x1e9e, 0xdf}};

std::uint32_t upper(std::uint32_t c) noexcept {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  for (const auto& [from, to] : only_upper)
    if (c == from) return to;
  for (const auto& [first, last, distance] : shifts)
    if (c >= first + distance && c <= last + distance) return c - distance;
  for (const auto& [first, last] : alternations)
    if (c >= first && c <= last) return c - (c - first) % 2;
  return c;
}

std::uint32_t lower(std::uint32_t c) noexcept {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  for (const auto& [from, to] : only_lower)
    if (c == from) return to;
  for (const auto& [first, last, distance] : shifts)
    if (c >= first && c <= last) return c + distance;
  for (const auto& [first, last] : alternations)
    if (c >= first && c <= last) return c + 1 - (c - first) % 2;
  return c;
}

template <class Map> std::string mapped(std::string_view bytes, Map map) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const auto length = character_bytes(bytes, at);
    const auto first = static_cast<unsigned char>(bytes[at]);
    if (first < 0x80)
      out += static_cast<char>(map(first));
    else if (length == 2 || length == 3)
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

std::size_t line_end_at(std::string_view bytes, std::size_t at) noexcept {
  if (bytes.substr(at, 2) == "\r\n") return 2;
  const auto first = static_cast<unsigned char>(bytes[at]);
  if (first < 0x80) return (first >= 0x0a && first <= 0x0d) || (first >= 0x1c && first <= 0x1e) ? 1 : 0;
  const auto length = character_bytes(bytes, at);
  const auto code = length > 1 ? decode(bytes, at, length) : 0;
  return code == 0x85 || code == 0x2028 || code == 0x2029 ? length : 0;
}

bool is_letter(std::string_view character) noexcept {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first < 0x80) return (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
  if (character.size() == 1) return false;
  const auto code = decode(character, 0, character.size());
  for (const auto& [begin, last] : signs)
    if (code >= begin && code <= last) return false;
  return true;
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
