#include "model/reasoning_masks.hpp"

#include <algorithm>

namespace godwit::gpu::model {

using protocols::token_id;
using protocols::grammar::reasoning_tracker;

std::string_view reasoning_masks::bytes(token_id id) const noexcept {
  if (id >= 0 && static_cast<std::size_t>(id) < texts_.size() && !texts_[static_cast<std::size_t>(id)].empty())
    return texts_[static_cast<std::size_t>(id)];
  const auto special = specials_.find(id);
  return special == specials_.end() ? std::string_view() : std::string_view(special->second);
}

std::shared_ptr<const token_mask> reasoning_masks::within(const reasoning_tracker& here) {
  const std::lock_guard lock(mutex_);
  auto& known = within_.at(here.matched());
  if (known) return *known;
  auto mask = all_but(here, [](part then) { return then == part::answer; });
  const bool free = std::ranges::all_of(mask->words, [](auto word) { return word == ~std::uint64_t{0}; });
  known = free ? nullptr : std::move(mask);
  return *known;
}

std::shared_ptr<const token_mask> reasoning_masks::opening() {
  const std::lock_guard lock(mutex_);
  if (!opening_) {
    opening_ = all_but(reasoning_tracker(protocols::reasoning_start::answer),
                       [](part then) { return then == part::within || then == part::behind; });
    for (auto& word : opening_->words) word = ~word;
  }
  return opening_;
}

template <class Excluded>
std::shared_ptr<token_mask> reasoning_masks::all_but(const reasoning_tracker& here, Excluded excluded) const {
  auto mask = std::make_shared<token_mask>();
  mask->words.assign((texts_.size() + 63) / 64, ~std::uint64_t{0});
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    auto then = here;
    then.push(bytes(static_cast<token_id>(i)));
    if (excluded(then.where())) mask->words[i / 64] ^= std::uint64_t{1} << (i % 64);
  }
  return mask;
}

} // namespace godwit::gpu::model
