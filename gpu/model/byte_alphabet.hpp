#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace godwit::gpu::model {

/// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written: printable Latin-1
/// bytes stand for themselves, the others for U+0100 and up in their order.
namespace byte_alphabet {

constexpr bool plain(unsigned byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}
inline constexpr std::array<char32_t, 256> characters = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) table[byte] = plain(byte) ? byte : next++;
  return table;
}();
inline constexpr std::array<std::int16_t, 0x144> bytes = [] {
  std::array<std::int16_t, 0x144> table{};
  for (auto& entry : table) entry = -1;
  for (unsigned byte = 0; byte < 256; ++byte) table[characters[byte]] = static_cast<std::int16_t>(byte);
  return table;
}();
[[nodiscard]] inline std::optional<char> byte_of(char32_t code) noexcept {
  if (code >= bytes.size() || bytes[code] < 0) return std::nullopt;
  return static_cast<char>(bytes[code]);
}
} // namespace byte_alphabet

} // namespace godwit::gpu::model
