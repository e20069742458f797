#include "model/word_splitter.hpp"

#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

#include <algorithm>

namespace godwit::gpu::model {

namespace {

using unicode::char_class;

struct character {
  std::uint32_t offset;
  char_class kind;
};

/// One text, its characters, and a place in it. Every `match_...` returns the place after a match or `at` for none.
class scanner {
public:
  scanner(std::string_view text, std::vector<character>& characters) : text_(text), characters_(characters) {
    characters_.clear();
    for (std::size_t at = 0; at < text.size();) {
      const auto read = read_utf8(text, at);
      characters_.push_back({static_cast<std::uint32_t>(at), unicode::class_of(read.code)});
      at += read.length;
    }
  }

  [[nodiscard]] std::size_t size() const { return characters_.size(); }
  [[nodiscard]] std::string_view cut(std::size_t from, std::size_t to) const {
    return text_.substr(offset(from), offset(to) - offset(from));
  }
  [[nodiscard]] bool is(std::size_t at, char_class kind) const { return at < size() && characters_[at].kind == kind; }

  template <class Predicate>
  [[nodiscard]] std::size_t run(std::size_t at, Predicate belongs, std::size_t most = ~std::size_t{0}) const {
    const auto end = most < size() - std::min(at, size()) ? at + most : size();
    while (at < end && belongs(characters_[at].kind)) ++at;
    return at;
  }

  [[nodiscard]] std::size_t contraction(std::size_t at, bool any_case) const {
    const auto rest = text_.substr(offset(at));
    if (rest.size() < 2 || rest[0] != '\'') return at;
    const auto letter = [&](std::size_t i) {
      const char c = i < rest.size() ? rest[i] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(1);
    const char second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) return at + 3;
    // The long s folds to s.
    return any_case && rest.substr(1, 2) == "\xC5\xBF" ? at + 2 : at;
  }

  [[nodiscard]] bool blank(std::size_t at) const { return at < size() && text_[offset(at)] == ' '; }

  /// \s+(?!\S)|\s+
  [[nodiscard]] std::size_t spaces(std::size_t at) const {
    const auto end = run(at, is_space);
    return end == size() || end - at < 2 ? end : end - 1;
  }

  static bool is_space(char_class kind) { return kind == char_class::space || kind == char_class::newline; }

private:
  [[nodiscard]] std::size_t offset(std::size_t at) const {
    return at < characters_.size() ? characters_[at].offset : text_.size();
  }

  std::string_view text_;
  std::vector<character>& characters_;
};

constexpr auto letters = [](char_class kind) { return kind == char_class::letter; };
constexpr auto numbers = [](char_class kind) { return kind == char_class::number; };
constexpr auto others = [](char_class kind) { return kind == char_class::other; };
constexpr auto newlines = [](char_class kind) { return kind == char_class::newline; };

std::size_t next_gpt2(const scanner& in, std::size_t at) {
  if (const auto end = in.contraction(at, false); end > at) return end;
  const auto start = in.blank(at) ? at + 1 : at;
  if (const auto end = in.run(start, letters); end > start) return end;
  if (const auto end = in.run(start, numbers); end > start) return end;
  if (const auto end = in.run(start, others); end > start) return end;
  return in.spaces(at);
}

std::size_t next_llama3(const scanner& in, std::size_t at, std::size_t digits_max) {
  if (const auto end = in.contraction(at, true); end > at) return end;
  const auto start = in.is(at, char_class::space) || in.is(at, char_class::other) ? at + 1 : at;
  if (const auto end = in.run(start, letters); end > start) return end;
  if (const auto end = in.run(at, numbers, digits_max); end > at) return end;
  const auto mark = in.blank(at) ? at + 1 : at;
  if (const auto end = in.run(mark, others); end > mark) return in.run(end, newlines);
  auto last_newline = in.run(at, scanner::is_space);
  while (last_newline > at && !in.is(last_newline - 1, char_class::newline)) --last_newline;
  return last_newline > at ? last_newline : in.spaces(at);
}

std::size_t next_digits(const scanner& in, std::size_t at) {
  if (in.is(at, char_class::number)) return at + 1;
  return in.run(at, [](char_class kind) { return kind != char_class::number; });
}

std::size_t next(const scanner& in, std::size_t at, split_pattern pattern) {
  switch (pattern) {
  case split_pattern::gpt2:
    return next_gpt2(in, at);
  case split_pattern::llama3:
    return next_llama3(in, at, 3);
  case split_pattern::qwen2:
    return next_llama3(in, at, 1);
  case split_pattern::digits:
    break;
  }
  return next_digits(in, at);
}

} // namespace

void split_words(std::string_view text, split_pattern pattern, std::vector<std::string_view>& words) {
  std::vector<character> characters;
  const scanner in(text, characters);
  words.clear();
  for (std::size_t at = 0; at < in.size();) {
    const auto end = next(in, at, pattern);
    words.push_back(in.cut(at, end));
    at = end;
  }
}

} // namespace godwit::gpu::model
