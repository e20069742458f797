#pragma once

#include <godwit/gpu/model/tokenizer.hpp>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model::tests {

inline std::string default_tokenizer_json() {
  std::ifstream in(GODWIT_SOURCE_DIR "/gpu/model/default/tokenizer.json", std::ios::binary);
  if (!in) throw std::runtime_error("gpu/model/default/tokenizer.json is not there");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("nothing to replace: " + std::string(from));
  return text.replace(at, from.size(), to);
}

/// The default model's tokenizer with another "pre_tokenizer" (a JSON value).
inline std::string with_pre_tokenizer(std::string text, std::string_view value) {
  const auto begin = text.find("\"pre_tokenizer\": {");
  const auto end = text.find('}', begin);
  if (begin == std::string::npos) throw std::logic_error("no pre_tokenizer");
  return text.replace(begin, end + 1 - begin, "\"pre_tokenizer\": " + std::string(value));
}

/// Split by a pattern (as it stands in JSON), then bytes, as Llama 3 and Qwen2 have it.
inline std::string split_by(std::string_view pattern) {
  return R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": ")" + std::string(pattern) +
         R"("}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})";
}

inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
inline constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
inline constexpr std::string_view o200k_pattern =
    R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
inline constexpr std::string_view tekken_pattern =
    R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
inline constexpr std::string_view digits_steps =
    R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})";

/// Texts that are hard to cut: scripts, code, emoji, marks, runs of white space, added tokens; then random mixtures of
/// all that.
std::vector<std::string> hard_texts();

/// Stretches of characters of many scripts, with spaces among them. All were there in Unicode 14.
std::vector<std::string> texts_of_many_scripts();

} // namespace godwit::gpu::model::tests
