#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// How a pre-tokenizer cuts text into words, each as its regular expression would, written as scanners.
enum class split_pattern : std::uint8_t {
  gpt2,   ///< 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  llama3, ///< (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  qwen2,  ///< the same with \p{N}
  digits  ///< every character of \p{N} is a word, and so is what lies between
};

/// Replaces `words` by the words of `text` (valid UTF-8), without gaps, in order.
void split_words(std::string_view text, split_pattern pattern, std::vector<std::string_view>& words);

} // namespace godwit::gpu::model
