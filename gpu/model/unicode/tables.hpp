#pragma once

#include <cstdint>
#include <span>

/// Generated tables (tables.cpp), all sorted.
namespace godwit::gpu::model::unicode {

struct code_range {
  char32_t first;
  char32_t last;
};

/// `code` decomposes into first and second (0: none); `composes`: NFC puts the two together again.
struct canonical_pair {
  char32_t code;
  char32_t first;
  char32_t second;
  std::uint8_t composes;
};

struct combining_range {
  char32_t first;
  char32_t last;
  std::uint8_t value;
};

[[nodiscard]] std::span<const code_range> letter_rows() noexcept;
[[nodiscard]] std::span<const code_range> number_rows() noexcept;
[[nodiscard]] std::span<const canonical_pair> canonical_rows() noexcept;
[[nodiscard]] std::span<const combining_range> combining_rows() noexcept;

} // namespace godwit::gpu::model::unicode
