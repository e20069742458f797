#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// How a pre-tokenizer cuts text into words, each as its regular expression would, written as scanners.
enum class split_pattern : std::uint8_t {
  gpt2,   ///< 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  llama3, ///< (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  qwen2,  ///< the same with \p{N}
  o200k,  ///< words of capitals and small letters with marks, contractions behind them; \p{N}{1,3}; slashes as newlines
  tekken, ///< the same without contractions, with \p{N}
  digits, ///< every character of \p{N} is a word, and so is what lies between
  digit_runs, ///< every run of \p{N} is a word, and so is what lies between
};

/// The pattern that this regular expression is; none where it is not known here.
[[nodiscard]] std::optional<split_pattern> known_pattern(std::string_view regex);

/// The regular expression of a pattern that files spell as one; empty: they do not.
[[nodiscard]] std::string_view regex_of(split_pattern pattern) noexcept;

/// Where the word ends that begins at `at` (inside `text`, which is valid UTF-8). Looks ahead over one run of white
/// space or letters at most, so all words of a text take linear time.
[[nodiscard]] std::size_t word_end(std::string_view text, std::size_t at, split_pattern pattern);

/// What becomes of a literal that a text is cut at.
enum class delimiter : std::uint8_t { removed, isolated, with_previous, with_next, contiguous };

/// One step of cutting: by a pattern, or at each occurrence of a literal.
struct split_step {
  split_pattern pattern = split_pattern::gpt2;
  std::string literal; ///< empty: the pattern counts
  delimiter behavior = delimiter::isolated;

  /// Appends the words of `text` in order; none is empty.
  void cut(std::string_view text, std::vector<std::string_view>& words) const;
};

} // namespace godwit::gpu::model
