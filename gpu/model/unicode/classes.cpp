#include "model/unicode/classes.hpp"

#include "model/unicode/tables.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace godwit::gpu::model::unicode {

namespace {

constexpr std::uint8_t bits_of(char_class kind) { return static_cast<std::uint8_t>(kind); }

class painter {
public:
  painter() : bits_(0x110000, bits_of(char_class::other)) {}
  void kind(std::span<const code_range> rows, char_class value) {
    each(rows, [&](std::uint8_t& bits) { bits = static_cast<std::uint8_t>((bits & ~7U) | bits_of(value)); });
  }
  void mark(std::span<const code_range> rows, std::uint8_t bit) {
    each(rows, [&](std::uint8_t& bits) { bits = static_cast<std::uint8_t>(bits | bit); });
  }
  void clear(std::span<const code_range> rows, std::uint8_t bit) {
    each(rows, [&](std::uint8_t& bits) { bits = static_cast<std::uint8_t>(bits & ~unsigned{bit}); });
  }
  void mark(char32_t code, std::uint8_t bit) { bits_[code] = static_cast<std::uint8_t>(bits_[code] | bit); }
  [[nodiscard]] const std::vector<std::uint8_t>& bits() const { return bits_; }

private:
  template <class Change> void each(std::span<const code_range> rows, Change change) {
    for (const auto& row : rows)
      for (auto code = row.first; code <= row.last; ++code) change(bits_[code]);
  }
  std::vector<std::uint8_t> bits_;
};

constexpr std::array white_space{code_range{0x09, 0x0D},     code_range{0x20, 0x20},     code_range{0x85, 0x85},
                                 code_range{0xA0, 0xA0},     code_range{0x1680, 0x1680}, code_range{0x2000, 0x200A},
                                 code_range{0x2028, 0x2029}, code_range{0x202F, 0x202F}, code_range{0x205F, 0x205F},
                                 code_range{0x3000, 0x3000}};
constexpr std::array newlines{code_range{'\n', '\n'}, code_range{'\r', '\r'}};
/// \w beyond letters, marks and decimal numbers: connectors, joiners, letters that are symbols.
constexpr std::array more_word{code_range{'_', '_'},         code_range{0x200C, 0x200D},  code_range{0x203F, 0x2040},
                               code_range{0x2054, 0x2054},   code_range{0x24B6, 0x24E9},  code_range{0xFE33, 0xFE34},
                               code_range{0xFE4D, 0xFE4F},   code_range{0xFF3F, 0xFF3F},  code_range{0x1F130, 0x1F149},
                               code_range{0x1F150, 0x1F169}, code_range{0x1F170, 0x1F189}};
/// Vowels and finals of Hangul, which join the consonant before them.
constexpr std::array joining_hangul{code_range{0x1161, 0x1175}, code_range{0x11A8, 0x11C2}};

void mark_unstable(painter& out) {
  for (const auto& row : combining_rows())
    for (auto code = row.first; code <= row.last; ++code) out.mark(code, traits::unstable_bit);
  for (const auto& row : canonical_rows()) out.mark(row.composes != 0 ? row.second : row.code, traits::unstable_bit);
  out.mark(joining_hangul, traits::unstable_bit);
}

std::vector<std::uint8_t> painted() {
  painter out;
  out.kind(letter_rows(), char_class::letter);
  out.kind(number_rows(), char_class::number);
  out.kind(white_space, char_class::space);
  out.kind(newlines, char_class::newline);
  out.mark(mark_rows(), traits::mark_bit);
  out.mark(upper_rows(), traits::upper_bit);
  out.mark(lower_rows(), traits::lower_bit);
  out.mark(letter_rows(), traits::word_bit);
  out.mark(mark_rows(), traits::word_bit);
  out.mark(number_rows(), traits::word_bit);
  out.clear(fraction_rows(), traits::word_bit);
  out.mark(more_word, traits::word_bit);
  mark_unstable(out);
  return out.bits();
}

} // namespace

trait_table::trait_table() {
  const auto bits = painted();
  std::map<page, std::uint16_t> numbers;
  std::vector<const page*> in_order;
  for (std::size_t index = 0; index < page_of_.size(); ++index) {
    page one{};
    std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(index * one.size()), one.size(), one.begin());
    const auto [found, added] = numbers.try_emplace(one, static_cast<std::uint16_t>(numbers.size()));
    if (added) in_order.push_back(&found->first); // a map's nodes stay
    page_of_[index] = found->second;
  }
  pages_ = std::make_unique<page[]>(in_order.size());
  for (std::size_t i = 0; i < in_order.size(); ++i) pages_[i] = *in_order[i];
}

const trait_table& all_traits() {
  static const trait_table table;
  return table;
}

} // namespace godwit::gpu::model::unicode
