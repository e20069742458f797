#include <godwit/runtime/async/scope.hpp>

namespace godwit::runtime::async {

scope::root::root(scope& owner) noexcept : owner_(owner), previous_(owner.newest_) {
  if (previous_) previous_->next_ = this;
  owner.newest_ = this;
  ++owner.roots_;
}

scope::root::~root() {
  (next_ ? next_->previous_ : owner_.newest_) = previous_;
  if (previous_) previous_->next_ = next_;
  --owner_.roots_;
}

wait_id scope::park(parked& waiter) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
    free_.reserve(slots_.size()); // so that `take` allocates nothing
  } else {
    index = free_.back();
    free_.pop_back();
  }
  slots_[index].waiter = &waiter;
  return {index, slots_[index].generation};
}

parked* scope::take(wait_id id) noexcept {
  if (!waiting(id)) return nullptr;
  auto& entry = slots_[id.slot];
  if (++entry.generation == 0) entry.generation = 1;
  free_.push_back(id.slot);
  return std::exchange(entry.waiter, nullptr);
}

bool scope::waiting(wait_id id) const noexcept {
  return id && id.slot < slots_.size() && slots_[id.slot].generation == id.generation && slots_[id.slot].waiter;
}

void scope::run_ready() {
  while (!ready_.empty()) {
    const auto id = ready_.front();
    ready_.pop_front();
    if (auto* waiter = take(id)) waiter->wake(nullptr);
  }
}

void scope::destroy_all() noexcept {
  closed_ = true;
  while (newest_) delete newest_;
  ready_.clear();
}

} // namespace godwit::runtime::async
