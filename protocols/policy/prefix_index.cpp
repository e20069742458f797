#include <godwit/protocols/policy/prefix_index.hpp>

#include <algorithm>
#include <ranges>

namespace godwit::protocols {

void prefix_index::sent(instance_id instance, std::span<const block_hash> marks, std::uint64_t capacity) {
  if (marks.empty()) return;
  const auto [place, fresh] = books_.try_emplace(instance);
  if (fresh) // each one's share is smaller now
    for (auto& [other, its] : books_) trim(other, its, share());
  // The last one first, so that beginnings outlive ends.
  for (const auto mark : std::views::reverse(marks)) use(instance, place->second, mark);
  trim(instance, place->second, std::min<std::uint64_t>(capacity, share()));
}

void prefix_index::forget(instance_id instance) {
  const auto own = books_.find(instance);
  if (own == books_.end()) return;
  trim(instance, own->second, 0);
  books_.erase(own);
}

std::span<const prefix_index::match> prefix_index::find(std::span<const block_hash> marks) {
  found_.clear();
  std::uint32_t depth = 0;
  while (depth < marks.size() && holders_.contains(marks[depth])) ++depth;
  // Who holds a mark holds those before it.
  for (; depth > 0 && found_.size() < matches_max; --depth) {
    const auto known = found_.size();
    const auto& holders = holders_.find(marks[depth - 1])->second;
    if (holders.size() == known) continue; // they are all among these, or of a long prompt each mark would look for all
    for (const auto& who : holders) {
      const auto end = found_.begin() + static_cast<std::ptrdiff_t>(known);
      if (std::ranges::find(found_.begin(), end, who.instance, &match::instance) != end) continue;
      found_.push_back({who.instance, depth});
      if (found_.size() == matches_max) break;
    }
  }
  return found_;
}

void prefix_index::use(instance_id instance, book& own, block_hash mark) {
  auto& all = holders_[mark];
  const auto place = std::ranges::lower_bound(all, instance, {}, &holder::instance);
  if (place != all.end() && place->instance == instance) {
    unlink(own, place->at);
    put_first(own, place->at);
    return;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(nodes_.size()));
    nodes_.emplace_back();
  }
  const auto at = free_.back();
  free_.pop_back();
  nodes_[at].mark = mark;
  put_first(own, at);
  all.insert(place, holder{instance, at});
  ++own.count;
  ++size_;
}

void prefix_index::drop(instance_id instance, book& own, std::uint32_t at) {
  const auto all = holders_.find(nodes_[at].mark);
  all->second.erase(std::ranges::lower_bound(all->second, instance, {}, &holder::instance));
  if (all->second.empty()) holders_.erase(all);
  unlink(own, at);
  free_.push_back(at);
  --own.count;
  --size_;
}

void prefix_index::trim(instance_id instance, book& own, std::uint64_t limit) {
  while (own.count > limit) drop(instance, own, own.oldest);
}

void prefix_index::unlink(book& own, std::uint32_t at) {
  const auto& one = nodes_[at];
  (one.newer == none ? own.newest : nodes_[one.newer].older) = one.older;
  (one.older == none ? own.oldest : nodes_[one.older].newer) = one.newer;
}

void prefix_index::put_first(book& own, std::uint32_t at) {
  auto& one = nodes_[at];
  one.newer = none;
  one.older = own.newest;
  (own.newest == none ? own.oldest : nodes_[own.newest].newer) = at;
  own.newest = at;
}

} // namespace godwit::protocols
