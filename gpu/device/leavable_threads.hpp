#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace godwit::gpu {

/// Threads for calls that may never return (of a library that waits for a device): whoever waits for them does so for a
/// while and then leaves them to themselves. So what they do owns all that it uses. One thread.
class leavable_threads {
public:
  /// Where there is no thread to be had `work` is not done, and what it owns stays until the process ends: letting go
  /// of it might wait for ever.
  void start(std::function<void()> work) {
    auto* const mine = new std::function<void()>(std::move(work));
    {
      const std::lock_guard lock(state_->mutex);
      ++state_->running;
    }
    try {
      std::thread([state = state_, mine] {
        (*mine)();
        delete mine; // what it owns goes before anybody is told
        const std::lock_guard lock(state->mutex);
        --state->running;
        state->changed.notify_all();
      }).detach();
    } catch (const std::system_error&) {
      const std::lock_guard lock(state_->mutex);
      --state_->running;
      ++state_->undone;
    }
  }

  /// Waits until all have ended, `wait_max` at most. How many have not.
  [[nodiscard]] std::size_t join(std::chrono::nanoseconds wait_max) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, wait_max, [this] { return state_->running == 0; });
    return state_->running + state_->undone;
  }

private:
  struct shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t running = 0;
    std::size_t undone = 0; ///< for want of a thread
  };
  std::shared_ptr<shared> state_ = std::make_shared<shared>();
};

/// Does `work` on such a thread. Whether it has ended within `wait_max`, with all that it owns.
[[nodiscard]] inline bool ends_within(std::chrono::nanoseconds wait_max, std::function<void()> work) {
  leavable_threads one;
  one.start(std::move(work));
  return one.join(wait_max) == 0;
}

} // namespace godwit::gpu
