#include <godwit/gpu/model/tokenizer.hpp>

#include "model/utf8.hpp"

namespace godwit::gpu::model {

incremental_decoder::incremental_decoder(std::shared_ptr<const tokenizer> tokens, bool skip_special, start begins)
    : tokens_(std::move(tokens)), skip_special_(skip_special),
      strip_max_(begins == start::text ? tokens_->leading_strip().most : 0), strip_left_(strip_max_) {}

std::string incremental_decoder::feed(protocols::token_id id) { return feed(std::span(&id, 1)); }

std::string incremental_decoder::feed(std::span<const protocols::token_id> ids) {
  for (const auto id : ids)
    if (!skip_special_ || !tokens_->is_special(id)) held_ += tokens_->bytes(id);
  while (strip_left_ > 0 && !held_.empty()) {
    const auto character = tokens_->leading_strip().character;
    if (held_.size() < character.size() && character.starts_with(held_)) return {}; // may become it
    strip_left_ = held_.starts_with(character) ? strip_left_ - 1 : 0;
    if (held_.starts_with(character)) held_.erase(0, character.size());
  }
  std::string out;
  held_.erase(0, append_valid(out, held_, false));
  return out;
}

std::string incremental_decoder::finish() {
  std::string out;
  append_valid(out, held_, true);
  held_.clear();
  strip_left_ = strip_max_;
  return out;
}

} // namespace godwit::gpu::model
