#include "model/reasoning_masks.hpp"

namespace godwit::gpu::model {

using protocols::token_id;
using protocols::grammar::reasoning_tracker;
using part = reasoning_tracker::part;

std::string_view reasoning_masks::bytes(token_id id) const noexcept {
  if (id >= 0 && static_cast<std::size_t>(id) < texts_.size() && !texts_[static_cast<std::size_t>(id)].empty())
    return texts_[static_cast<std::size_t>(id)];
  const auto special = specials_.find(id);
  return special == specials_.end() ? std::string_view() : std::string_view(special->second);
}

std::shared_ptr<const token_mask> reasoning_masks::at(const reasoning_tracker& here) {
  const std::lock_guard lock(mutex_);
  auto& known = here.where() == part::before ? before_.at(here.matched()) : within_.at(here.matched());
  if (!known.known) known = {true, look(here)};
  return known.mask;
}

std::shared_ptr<const token_mask> reasoning_masks::look(const reasoning_tracker& here) const {
  const bool thinks = here.where() == part::within;
  auto mask = std::make_shared<token_mask>();
  mask->words.assign((texts_.size() + 63) / 64, thinks ? ~std::uint64_t{0} : 0);
  bool all = thinks;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const auto text = bytes(static_cast<token_id>(i));
    if (text.empty()) continue;
    auto then = here;
    then.push(text);
    // White space in front of `<think>` would have no end.
    const bool goes_on =
        then.where() != part::answer && (thinks || !(then.where() == part::before && then.matched() == 0));
    if (goes_on == thinks) continue;
    mask->words[i / 64] ^= std::uint64_t{1} << (i % 64);
    all = false;
  }
  return all ? nullptr : mask;
}

} // namespace godwit::gpu::model
