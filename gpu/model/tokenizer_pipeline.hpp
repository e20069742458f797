#pragma once

#include "model/json_reader.hpp"
#include "model/text_normalizer.hpp"
#include "model/word_splitter.hpp"

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

/// Sentencepiece's way with spaces: they become a visible character, and one is put in front of a text.
struct metaspace_step {
  enum class prepend : std::uint8_t { first, always, never };
  std::string replacement = "\xE2\x96\x81"; ///< U+2581
  prepend scheme = prepend::always;         ///< first: only at the beginning of a text, not behind an added token
  bool split = true;                        ///< every replacement begins a word
};

/// How a vocabulary's spelling of a token becomes text again.
struct token_decoding {
  bool byte_level = false;    ///< spelled in the byte alphabet
  bool byte_fallback = false; ///< "<0x0A>" is a byte
  std::vector<std::pair<std::string, std::string>> replacements;
  std::string strip;           ///< a character that goes from the beginning of a text,
  std::uint32_t strip_max = 0; ///< so many of it
};

/// What stands around the BPE model in a tokenizer.json.
struct tokenizer_pipeline {
  std::vector<normalizer_step> normalizer;
  bool byte_level = false; ///< words are given to the model as bytes, otherwise as characters
  bool prefix_space = false;
  std::optional<metaspace_step> metaspace;
  std::vector<split_step> splits;
  std::vector<protocols::token_id> prefix;
  std::vector<protocols::token_id> suffix;
  token_decoding decoding;
};

/// The most steps that a component may have, and the most tokens that one may put around a text.
inline constexpr std::size_t pipeline_steps_max = 16;

/// The steps of a component that may be one step, a Sequence of steps, or nothing.
[[nodiscard]] std::vector<json_reader> steps_of(const json_reader& in, std::string_view component,
                                                std::string_view list);
[[noreturn]] void refuse_type(const json_reader& step, const std::string& supported);
/// The literal of a step's "pattern": a String, or a Regex without anything special in it.
[[nodiscard]] std::optional<std::string> literal_of(const json_reader& step);

[[nodiscard]] std::vector<normalizer_step> read_normalizer(const json_reader& in);
void read_pre_tokenizer(const json_reader& in, tokenizer_pipeline& out);
void read_post_processor(const json_reader& in, tokenizer_pipeline& out);
[[nodiscard]] token_decoding read_decoder(const json_reader& in);

/// Reads normalizer, pre_tokenizer, post_processor and decoder; refuses what is not supported by its name. Throws
/// model_error.
[[nodiscard]] tokenizer_pipeline read_pipeline(const json_reader& in);

} // namespace godwit::gpu::model
