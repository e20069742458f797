#include "model/word_splitter.hpp"

#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

#include <array>

namespace godwit::gpu::model {

namespace {

using unicode::traits;

/// A place in a text: the traits of the character there. Characters are read as they are met.
class scanner {
public:
  explicit scanner(std::string_view text) noexcept : text_(text) {}

  struct character {
    traits what;
    std::uint8_t length = 0; ///< 0: the end
  };
  [[nodiscard]] character at(std::size_t place) const noexcept {
    if (place >= text_.size()) return {};
    const auto first = static_cast<std::uint8_t>(text_[place]);
    if (first < 0x80) return {table_.of(first), 1};
    const auto wide = read_utf8(text_, place);
    return {table_.of(wide.code), wide.length};
  }
  [[nodiscard]] bool byte_is(std::size_t place, char byte) const noexcept {
    return place < text_.size() && text_[place] == byte;
  }
  [[nodiscard]] std::size_t size() const noexcept { return text_.size(); }

  template <class Belongs>
  [[nodiscard]] std::size_t run(std::size_t place, Belongs belongs, std::size_t most = ~std::size_t{0}) const noexcept {
    for (; most > 0; --most) {
      const auto here = at(place);
      if (here.length == 0 || !belongs(here.what)) break;
      place += here.length;
    }
    return place;
  }

  /// The end of 's, 't, 're, 've, 'm, 'll or 'd at `place`; `place` where there is none.
  [[nodiscard]] std::size_t contraction(std::size_t place, bool any_case) const noexcept {
    if (!byte_is(place, '\'')) return place;
    const auto letter = [&](std::size_t i) {
      const char c = place + i < text_.size() ? text_[place + i] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(1);
    const char second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return place + 2;
    if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')) return place + 3;
    // The long s folds to s.
    return any_case && text_.substr(place + 1, 2) == "\xC5\xBF" ? place + 3 : place;
  }

  struct white {
    std::size_t end;
    std::size_t last;           ///< where the last character begins
    std::size_t after_newlines; ///< behind the last newline; the beginning where there is none
  };
  [[nodiscard]] white spaces(std::size_t place) const noexcept {
    white found{place, place, place};
    while (true) {
      const auto here = at(found.end);
      if (here.length == 0 || !here.what.space()) return found;
      found.last = found.end;
      found.end += here.length;
      if (here.what.newline()) found.after_newlines = found.end;
    }
  }
  /// \s+(?!\S)|\s+
  [[nodiscard]] std::size_t before_word(const white& found, std::size_t place) const noexcept {
    return found.end == size() || found.last == place ? found.end : found.last;
  }

private:
  std::string_view text_;
  const unicode::trait_table& table_ = unicode::all_traits();
};

constexpr auto letters = [](traits c) { return c.letter(); };
constexpr auto numbers = [](traits c) { return c.number(); };
constexpr auto others = [](traits c) { return c.other(); };

std::size_t next_gpt2(const scanner& in, std::size_t at) {
  if (const auto end = in.contraction(at, false); end > at) return end;
  const auto start = in.byte_is(at, ' ') ? at + 1 : at;
  const auto first = in.at(start);
  if (first.length != 0) {
    if (first.what.letter()) return in.run(start + first.length, letters);
    if (first.what.number()) return in.run(start + first.length, numbers);
    if (first.what.other()) return in.run(start + first.length, others);
  }
  return in.before_word(in.spaces(at), at);
}

/// What the newer patterns have after words: numbers, signs, white space. `more_newlines`: another character that goes
/// with the newlines behind signs.
std::size_t next_without_words(const scanner& in, std::size_t at, std::size_t digits_max, char more_newlines) {
  if (const auto end = in.run(at, numbers, digits_max); end > at) return end;
  const auto signs = in.byte_is(at, ' ') ? at + 1 : at;
  if (auto end = in.run(signs, others); end > signs) {
    while (in.byte_is(end, '\r') || in.byte_is(end, '\n') || in.byte_is(end, more_newlines)) ++end;
    return end;
  }
  const auto white = in.spaces(at);
  return white.after_newlines > at ? white.after_newlines : in.before_word(white, at);
}

std::size_t next_llama3(const scanner& in, std::size_t at, std::size_t digits_max) {
  if (const auto end = in.contraction(at, true); end > at) return end;
  const auto first = in.at(at);
  if (first.what.letter()) return in.run(at + first.length, letters);
  if (!first.what.number() && !first.what.newline()) {
    const auto start = at + first.length;
    if (const auto end = in.run(start, letters); end > start) return end;
  }
  return next_without_words(in, at, digits_max, '\n');
}

// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}]: letters without case and marks are in both.
constexpr auto not_lower = [](traits c) { return c.mark() || (c.letter() && !c.lower()); };
constexpr auto not_upper = [](traits c) { return c.mark() || (c.letter() && !c.upper()); };

/// A*B+ at `at`; `at` where it does not match.
std::size_t small_word(const scanner& in, std::size_t at) {
  const auto capitals = in.run(at, not_lower);
  const auto small = in.run(capitals, not_upper);
  if (small > capitals) return small;
  // A* gives back until B+ has one: the last that is in both.
  auto end = at;
  for (auto place = at; place < capitals;) {
    const auto here = in.at(place);
    place += here.length;
    if (not_upper(here.what)) end = place;
  }
  return end;
}

/// A+B*
std::size_t capital_word(const scanner& in, std::size_t at) {
  const auto capitals = in.run(at, not_lower);
  return capitals > at ? in.run(capitals, not_upper) : at;
}

std::size_t next_cased(const scanner& in, std::size_t at, bool contractions, std::size_t digits_max) {
  const auto first = in.at(at);
  // [^\r\n\p{L}\p{N}]? may take a mark, which could also begin a word.
  const bool led = !first.what.letter() && !first.what.number() && !first.what.newline();
  for (const auto word : {small_word, capital_word}) {
    for (const auto start : {led ? at + first.length : at, at}) {
      const auto end = word(in, start);
      if (end > start) return contractions ? in.contraction(end, true) : end;
    }
  }
  return next_without_words(in, at, digits_max, '/');
}

std::size_t next_digits(const scanner& in, std::size_t at, std::size_t most) {
  if (const auto end = in.run(at, numbers, most); end > at) return end;
  return in.run(at, [](traits c) { return !c.number(); });
}

struct spelled_pattern {
  std::string_view regex;
  split_pattern kind;
};

constexpr std::array known_patterns{
    spelled_pattern{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                    split_pattern::gpt2},
    spelled_pattern{R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", split_pattern::gpt2},
    spelled_pattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        split_pattern::llama3},
    spelled_pattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        split_pattern::qwen2},
    spelled_pattern{
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        split_pattern::o200k},
    spelled_pattern{
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        split_pattern::tekken}};

} // namespace

std::optional<split_pattern> known_pattern(std::string_view regex) {
  for (const auto& known : known_patterns)
    if (known.regex == regex) return known.kind;
  return std::nullopt;
}

std::string_view regex_of(split_pattern pattern) noexcept {
  for (const auto& known : known_patterns)
    if (known.kind == pattern) return known.regex;
  return {};
}

std::size_t word_end(std::string_view text, std::size_t at, split_pattern pattern) {
  const scanner in(text);
  switch (pattern) {
  case split_pattern::gpt2:
    return next_gpt2(in, at);
  case split_pattern::llama3:
    return next_llama3(in, at, 3);
  case split_pattern::qwen2:
    return next_llama3(in, at, 1);
  case split_pattern::o200k:
    return next_cased(in, at, true, 3);
  case split_pattern::tekken:
    return next_cased(in, at, false, 1);
  case split_pattern::digits:
    return next_digits(in, at, 1);
  case split_pattern::digit_runs:
    break;
  }
  return next_digits(in, at, ~std::size_t{0});
}

void split_step::cut(std::string_view text, std::vector<std::string_view>& words) const {
  if (literal.empty()) {
    for (std::size_t at = 0; at < text.size();) {
      const auto end = word_end(text, at, pattern);
      words.push_back(text.substr(at, end - at));
      at = end;
    }
    return;
  }
  std::size_t word = 0; // begins here
  const auto finish = [&](std::size_t end) {
    if (end > word) words.push_back(text.substr(word, end - word));
    word = end;
  };
  std::size_t after = std::string_view::npos; // behind the last literal
  for (auto found = text.find(literal); found != std::string_view::npos; found = text.find(literal, after)) {
    const bool follows = found == after;
    after = found + literal.size();
    switch (behavior) {
    case delimiter::removed:
      finish(found);
      word = after;
      break;
    case delimiter::isolated:
      finish(found);
      finish(after);
      break;
    case delimiter::with_previous: // of several in a row the first belongs to the word before
      finish(after);
      break;
    case delimiter::with_next: // and the last to the word behind
      finish(found);
      break;
    case delimiter::contiguous:
      if (!follows) finish(found);
      break;
    }
    if (behavior == delimiter::contiguous && text.substr(after, literal.size()) != literal) finish(after);
  }
  finish(text.size());
}

} // namespace godwit::gpu::model
