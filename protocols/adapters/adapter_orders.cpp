#include <godwit/protocols/adapters/adapter_orders.hpp>
#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols {

adapter_orders::asking adapter_orders::ask(const adapter_ref& which, ticket by) {
  if (shelf_.has(which.id) && !(under_way_ && (*under_way_)->which.id == which.id)) {
    shelf_.use(which.id);
    return asking::there;
  }
  if (waiting_ >= waiting_max_) return asking::too_many;
  ++waiting_;
  const auto same = std::ranges::find(orders_, which.id, [](const order& one) { return one.which.id; });
  if (same == orders_.end())
    orders_.push_back({which, {by}, {}});
  else
    same->by.push_back(by);
  return asking::waits;
}

void adapter_orders::leave(ticket who) {
  for (auto one = orders_.begin(); one != orders_.end(); ++one) {
    const auto found = std::ranges::find(one->by, who);
    if (found == one->by.end()) continue;
    one->by.erase(found);
    --waiting_;
    if (one->by.empty() && !(under_way_ && *under_way_ == one)) orders_.erase(one);
    return;
  }
}

adapter_orders::work adapter_orders::next() {
  ensure(!under_way_, "adapter_orders: one at a time");
  for (auto one = orders_.begin(); one != orders_.end(); ++one) {
    if (!one->bytes) {
      under_way_ = one;
      return {work::what::measure, one->which, {}};
    }
    auto evicted = shelf_.make_room(*one->bytes);
    if (!evicted) continue;
    shelf_.put(one->which.id, *one->bytes);
    shelf_.use(one->which.id); // by the load
    under_way_ = one;
    return {work::what::bring, one->which, *std::move(evicted)};
  }
  return {};
}

std::vector<adapter_orders::ticket> adapter_orders::end() {
  ensure(under_way_.has_value(), "adapter_orders: what ends was under way");
  const auto one = *std::exchange(under_way_, std::nullopt);
  auto by = std::move(one->by);
  waiting_ -= by.size();
  orders_.erase(one);
  return by;
}

std::vector<adapter_orders::ticket> adapter_orders::measured(std::uint64_t bytes) {
  ensure(under_way_ && !(*under_way_)->bytes, "adapter_orders: it was to be measured");
  if (bytes > shelf_.bytes_max() || (*under_way_)->by.empty()) return end();
  (*under_way_)->bytes = bytes;
  under_way_.reset();
  return {};
}

std::vector<adapter_orders::ticket> adapter_orders::brought() {
  ensure(under_way_ && (*under_way_)->bytes, "adapter_orders: it was to be brought");
  const auto id = (*under_way_)->which.id;
  auto by = end();
  for (std::size_t i = 0; i < by.size(); ++i) shelf_.use(id);
  shelf_.release(id); // by the load
  return by;
}

std::vector<adapter_orders::ticket> adapter_orders::failed() {
  ensure(under_way_.has_value(), "adapter_orders: what fails was under way");
  if ((*under_way_)->bytes) {
    shelf_.release((*under_way_)->which.id);
    shelf_.drop((*under_way_)->which.id);
  }
  return end();
}

} // namespace godwit::protocols
