#include <godwit/gpu/event.hpp>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace godwit::gpu {

struct event::state {
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  std::vector<std::function<void()>> reactions;
};

event::event() : state_(std::make_shared<state>()) {}

bool event::ready() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ready;
}

void event::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->ready; });
}

bool event::wait_for(std::chrono::nanoseconds wait_max) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, wait_max, [&] { return state_->ready; });
}

void event::on_ready(std::function<void()> reaction) const {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->ready) {
      state_->reactions.push_back(std::move(reaction));
      return;
    }
  }
  reaction();
}

void event::set() const {
  std::vector<std::function<void()>> reactions;
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->ready, true)) return;
    reactions.swap(state_->reactions);
    state_->changed.notify_all();
  }
  for (const auto& reaction : reactions) reaction();
}

} // namespace godwit::gpu
