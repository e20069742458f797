#pragma once

#include <godwit/gpu/model/tokenizer.hpp>

#include "model/added_tokens.hpp"
#include "model/merge_table.hpp"
#include "model/vocabulary.hpp"
#include "model/word_splitter.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// What a tokenizer.json comes down to.
struct tokenizer::parts {
  parts(const std::vector<vocabulary::entry>& tokens, const std::vector<added_token>& raw,
        const std::vector<added_token>& after_normalizing, merge_table table)
      : words(tokens), added_raw(raw), added_normalized(after_normalizing), merges(std::move(table)) {}

  vocabulary words; ///< added tokens too
  added_token_finder added_raw;
  added_token_finder added_normalized;
  merge_table merges;
  std::array<protocols::token_id, 256> byte_tokens{}; ///< -1: the vocabulary lacks the byte; such never occurs in UTF-8
  std::vector<bool> special;                          ///< by id
  std::vector<bool> added;                            ///< by id; not found by ignore_merges
  std::vector<split_pattern> splits;                  ///< one after the other
  std::vector<protocols::token_id> prefix;
  std::vector<protocols::token_id> suffix;
  bool nfc = false;
  bool ignore_merges = false;
  bool prefix_space = false;
};

} // namespace godwit::gpu::model
