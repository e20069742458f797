#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Files with the structure of well-known models' tokenizer.json, and vocabularies trained here (theirs cannot be had
/// without a network).
namespace godwit::gpu::model::tests {

struct tokenizer_family {
  std::string name;
  std::string json;
  bool lossless = true; ///< decode gives back what was encoded, but for a space in front
};

/// GPT-2, Llama 3, Qwen2/3, GPT-4o's pattern, Mistral Tekken; Llama 2, Mistral, Gemma, and some that no model has:
/// merges across words, unknown characters, words cut at each space, form NFKC.
[[nodiscard]] const std::vector<std::string>& family_names();
/// Trained when it is asked for the first time.
[[nodiscard]] const tokenizer_family& family(std::string_view name);

/// A JSON string.
[[nodiscard]] std::string json_string(std::string_view text);

} // namespace godwit::gpu::model::tests
