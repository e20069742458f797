#include <godwit/protocols/policy/prefix_index.hpp>

#include <algorithm>

namespace godwit::protocols {

void prefix_index::sent(instance_id instance, std::span<const block_hash> marks, std::uint64_t capacity) {
  if (marks.empty()) return;
  auto& own = books_.try_emplace(instance, book{forgotten_, forgotten_, 0}).first->second;
  own.capacity = capacity;
  for (const auto mark : marks) {
    auto& all = holders_[mark];
    const auto place = std::ranges::lower_bound(all, instance, {}, &holder::instance);
    if (place != all.end() && place->instance == instance) {
      if (!holds(*place)) ++own.count;
      place->at = own.count;
    } else {
      all.insert(place, holder{instance, ++own.count});
      ++size_;
    }
  }
  if (size_ > marks_max) sweep();
}

void prefix_index::forget(instance_id instance) {
  const auto own = books_.find(instance);
  if (own == books_.end()) return;
  forgotten_ = std::max(forgotten_, own->second.count);
  books_.erase(own);
}

std::span<const prefix_index::match> prefix_index::find(std::span<const block_hash> marks) {
  found_.clear();
  for (std::uint32_t depth = 0; depth < marks.size(); ++depth) {
    const auto all = holders_.find(marks[depth]);
    if (all == holders_.end()) break;
    bool deeper = false;
    auto known = found_.begin();
    for (const auto& who : all->second) {
      if (!holds(who)) continue;
      if (depth == 0) {
        found_.push_back({who.instance, 1});
        deeper = true;
        continue;
      }
      known = std::ranges::lower_bound(known, found_.end(), who.instance, {}, &match::instance);
      if (known == found_.end()) break;
      if (known->instance != who.instance || known->marks != depth) continue;
      ++known->marks;
      deeper = true;
    }
    if (!deeper) break;
  }
  return found_;
}

bool prefix_index::holds(const holder& who) const noexcept {
  const auto own = books_.find(who.instance);
  if (own == books_.end() || who.at <= own->second.first) return false;
  const std::uint64_t share = marks_max / 2 / books_.size();
  return own->second.count - who.at < std::min(own->second.capacity, share);
}

void prefix_index::sweep() {
  for (auto i = holders_.begin(); i != holders_.end();) {
    size_ -= std::erase_if(i->second, [this](const holder& who) { return !holds(who); });
    i = i->second.empty() ? holders_.erase(i) : std::next(i);
  }
  if (size_ <= marks_max) return;
  holders_.clear(); // instances came, and each one's share is smaller than it was
  size_ = 0;
}

} // namespace godwit::protocols
