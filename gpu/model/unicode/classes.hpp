#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::gpu::model::unicode {

/// What the patterns of byte-level tokenizers tell apart. \s is Unicode's White_Space, of which \r and \n are told
/// apart.
enum class char_class : std::uint8_t { letter, number, newline, space, other };

[[nodiscard]] char_class class_of(char32_t code) noexcept;

/// Normalization form C of valid UTF-8. Text below U+0300 is returned as it is.
[[nodiscard]] std::string nfc(std::string_view text);

} // namespace godwit::gpu::model::unicode
