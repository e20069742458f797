#include <godwit/protocols/batching/queue_summary.hpp>

#include <algorithm>

namespace godwit::protocols {

queue_summary::queue_summary(std::size_t waiting) noexcept
    : left_(waiting), most_(std::max<std::size_t>((waiting + equal_parts - 1) / equal_parts, 1)) {}

bool queue_summary::begins(const queue_place& next) const noexcept {
  if (parts_.empty() || parts_.back().requests >= most_) return true;
  const auto& last = parts_.back().last;
  const bool alike = last.priority == next.priority && last.fresh == next.fresh;
  return !alike && parts_.size() + (left_ + most_ - 1) / most_ <= parts_max;
}

void queue_summary::add(const queue_part& one) {
  if (parts_.size() < parts_max && begins(one.first)) parts_.emplace_back().first = one.first;
  auto& part = parts_.back();
  part.last = one.last;
  part.requests += one.requests;
  part.blocks += one.blocks;
  part.tokens += one.tokens;
  part.pairs += one.pairs;
  if (left_ > 0) --left_;
}

queue_part queued_behind(const queue_place& place, const std::vector<queue_part>& queue) noexcept {
  queue_part behind;
  const auto count = std::min(queue.size(), queue_summary::parts_max); // whoever reports may err
  for (std::size_t i = 0; i < count; ++i) {
    const auto& part = queue[i];
    if (part.last < place) continue;
    const std::uint64_t share = part.first < place ? 2 : 1;
    behind.requests += part.requests / share;
    behind.blocks += part.blocks / share;
    behind.tokens += part.tokens / share;
    behind.pairs += part.pairs / static_cast<double>(share);
  }
  return behind;
}

} // namespace godwit::protocols
