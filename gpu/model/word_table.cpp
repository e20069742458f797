#include "model/word_table.hpp"

#include <bit>
#include <limits>

namespace godwit::gpu::model {

word_table::word_table(std::size_t words, std::size_t bytes)
    : slots_(std::bit_ceil(words * 2 + 2)), mask_(slots_.size() - 1), room_(words) {
  text_.reserve(bytes);
}

bool word_table::add(std::string_view word, protocols::token_id id) {
  const auto hash = word_hash(word);
  if (room_ == 0 || find(word, hash) >= 0) return false;
  if (text_.size() + word.size() > std::numeric_limits<std::uint32_t>::max()) return false;
  auto at = static_cast<std::size_t>(hash) & mask_;
  while (slots_[at].id >= 0) at = (at + 1) & mask_;
  slots_[at] = {check_of(hash), static_cast<std::uint32_t>(text_.size()), static_cast<std::uint32_t>(word.size()), id};
  text_ += word;
  --room_;
  return true;
}

} // namespace godwit::gpu::model
