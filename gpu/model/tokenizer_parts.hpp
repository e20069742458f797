#pragma once

#include <godwit/gpu/model/tokenizer.hpp>

#include "model/added_tokens.hpp"
#include "model/bpe_model.hpp"
#include "model/text_normalizer.hpp"
#include "model/tokenizer_pipeline.hpp"
#include "model/vocabulary.hpp"
#include "model/word_splitter.hpp"

#include <optional>
#include <string>
#include <vector>

namespace godwit::gpu::model {

/// What a tokenizer.json comes down to.
struct tokenizer::parts {
  parts(const std::vector<vocabulary::entry>& tokens, const std::vector<added_token>& raw,
        const std::vector<added_token>& after_normalizing, bpe_model bpe)
      : words(tokens), added_raw(raw), added_normalized(after_normalizing), model(std::move(bpe)) {}

  vocabulary words; ///< what ids become in a text; added tokens too
  added_token_finder added_raw;
  added_token_finder added_normalized;
  bpe_model model;
  text_normalizer normalizer;
  bool prefix_space = false;
  std::optional<metaspace_step> metaspace;
  std::vector<split_step> splits; ///< one after the other
  /// No merge goes across the beginning of a run of this, so that a word may be cut there; empty: some do.
  std::string word_mark;
  std::vector<bool> special; ///< by id
  std::vector<protocols::token_id> prefix;
  std::vector<protocols::token_id> suffix;
  std::string strip;           ///< a character that decoding takes away from the beginning,
  std::uint32_t strip_max = 0; ///< so many of it
};

} // namespace godwit::gpu::model
