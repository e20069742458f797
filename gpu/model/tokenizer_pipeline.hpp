#pragma once

#include "model/json_reader.hpp"
#include "model/tokenizer_parts.hpp"

#include <godwit/protocols/messages/ids.hpp>

#include <vector>

namespace godwit::gpu::model {

/// What stands around the BPE model in a tokenizer.json.
struct tokenizer_pipeline {
  bool nfc = false;
  bool prefix_space = false;
  std::vector<split_pattern> splits;
  std::vector<protocols::token_id> prefix;
  std::vector<protocols::token_id> suffix;
};

/// Reads normalizer, pre_tokenizer, post_processor and decoder; refuses kinds that are not byte-level. Throws
/// model_error.
[[nodiscard]] tokenizer_pipeline read_pipeline(const json_reader& in);

} // namespace godwit::gpu::model
