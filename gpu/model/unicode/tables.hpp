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

/// `code` is, for the compatibility forms, the `length` characters from `offset` of the pool; decomposed all the way.
struct compatibility_row {
  char32_t code;
  std::uint32_t offset;
  std::uint32_t length;
};

struct combining_range {
  char32_t first;
  char32_t last;
  std::uint8_t value;
};

[[nodiscard]] std::span<const code_range> letter_rows() noexcept;
[[nodiscard]] std::span<const code_range> number_rows() noexcept;
[[nodiscard]] std::span<const code_range> mark_rows() noexcept;
[[nodiscard]] std::span<const code_range> upper_rows() noexcept; ///< title case too
[[nodiscard]] std::span<const code_range> lower_rows() noexcept;
[[nodiscard]] std::span<const code_range> fraction_rows() noexcept; ///< numbers that are neither digits nor letters
[[nodiscard]] std::span<const canonical_pair> canonical_rows() noexcept;
[[nodiscard]] std::span<const combining_range> combining_rows() noexcept;
[[nodiscard]] std::span<const compatibility_row> compatibility_rows() noexcept;
[[nodiscard]] std::span<const char32_t> compatibility_pool() noexcept;

} // namespace godwit::gpu::model::unicode
