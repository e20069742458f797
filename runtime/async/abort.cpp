#include <godwit/runtime/async/abort.hpp>

#include <algorithm>

namespace godwit::runtime::async {

abort_token::wait_operation::~wait_operation() {
  if (!id_) return;
  scope_->forget(id_); // also one that was aborted, whose turn in the scope is still to come
  std::erase(state_->waiting, id_);
}

void abort_token::wait_operation::await_suspend(std::coroutine_handle<> frame) {
  frame_ = frame;
  if (!state_ || !state_->owner) return; // nobody will abort
  scope_ = state_->owner;                // which this outlives in no case; the source may go before
  id_ = scope_->park(*this);
  state_->waiting.push_back(id_);
}

void abort_token::wait_operation::wake(void*) {
  id_ = {};
  frame_.resume();
}

abort_source::abort_source(scope& owner) : state_(std::make_shared<detail::abort_state>()) { state_->owner = &owner; }

abort_source::~abort_source() {
  for (const auto id : state_->waiting) state_->owner->forget(id);
  state_->owner = nullptr;
}

void abort_source::abort() {
  if (std::exchange(state_->aborted, true)) return;
  for (const auto id : std::exchange(state_->waiting, {})) state_->owner->make_ready(id);
}

} // namespace godwit::runtime::async
