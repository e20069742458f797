#include <godwit/gpu/model/tokenizer.hpp>

#include "model/utf8.hpp"

namespace godwit::gpu::model {

incremental_decoder::incremental_decoder(std::shared_ptr<const tokenizer> tokens, bool skip_special)
    : tokens_(std::move(tokens)), skip_special_(skip_special) {}

std::string incremental_decoder::feed(protocols::token_id id) { return feed(std::span(&id, 1)); }

std::string incremental_decoder::feed(std::span<const protocols::token_id> ids) {
  for (const auto id : ids)
    if (!skip_special_ || !tokens_->is_special(id)) held_ += tokens_->bytes(id);
  std::string out;
  held_.erase(0, append_valid(out, held_, false));
  return out;
}

std::string incremental_decoder::finish() {
  std::string out;
  append_valid(out, held_, true);
  held_.clear();
  return out;
}

} // namespace godwit::gpu::model
