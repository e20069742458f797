#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

namespace godwit::gpu::model::unicode {

/// What the patterns of tokenizers tell apart. \s is Unicode's White_Space, of which \r and \n are told apart.
enum class char_class : std::uint8_t { letter, number, newline, space, other };

/// A character's class and what else is asked of it, in one byte.
class traits {
public:
  static constexpr std::uint8_t mark_bit = 0x08, upper_bit = 0x10, lower_bit = 0x20, word_bit = 0x40,
                                unstable_bit = 0x80;

  constexpr traits() noexcept = default;
  constexpr explicit traits(std::uint8_t bits) noexcept : bits_(bits) {}

  [[nodiscard]] constexpr char_class kind() const noexcept { return static_cast<char_class>(bits_ & 7U); }
  [[nodiscard]] constexpr bool letter() const noexcept { return kind() == char_class::letter; }
  [[nodiscard]] constexpr bool number() const noexcept { return kind() == char_class::number; }
  [[nodiscard]] constexpr bool newline() const noexcept { return kind() == char_class::newline; }
  [[nodiscard]] constexpr bool space() const noexcept { return newline() || kind() == char_class::space; }
  /// [^\s\p{L}\p{N}]
  [[nodiscard]] constexpr bool other() const noexcept { return kind() == char_class::other; }
  [[nodiscard]] constexpr bool mark() const noexcept { return (bits_ & mark_bit) != 0; }
  /// \p{Lu} and \p{Lt}
  [[nodiscard]] constexpr bool upper() const noexcept { return (bits_ & upper_bit) != 0; }
  [[nodiscard]] constexpr bool lower() const noexcept { return (bits_ & lower_bit) != 0; }
  /// \w
  [[nodiscard]] constexpr bool word() const noexcept { return (bits_ & word_bit) != 0; }
  /// Normalization form C may change it or move it; a text without such is in form C.
  [[nodiscard]] constexpr bool unstable() const noexcept { return (bits_ & unstable_bit) != 0; }

private:
  std::uint8_t bits_ = static_cast<std::uint8_t>(char_class::other);
};

/// All characters' traits: two reads for any of them. Immutable.
class trait_table {
public:
  trait_table();
  [[nodiscard]] traits of(char32_t code) const noexcept {
    return code < 0x110000 ? traits(pages_[page_of_[code >> 8U]][code & 0xFFU]) : traits();
  }

private:
  using page = std::array<std::uint8_t, 256>;
  std::array<std::uint16_t, 0x1100> page_of_{};
  std::unique_ptr<page[]> pages_; ///< those that differ
};

/// Built on first use, from the generated ranges.
[[nodiscard]] const trait_table& all_traits();

[[nodiscard]] inline char_class class_of(char32_t code) { return all_traits().of(code).kind(); }

} // namespace godwit::gpu::model::unicode
