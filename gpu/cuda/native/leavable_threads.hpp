#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace godwit::gpu::cuda::native {

/// Threads for calls that may never return (of a library that waits for a device): whoever waits for them does so for a
/// while and then leaves them to themselves. So what they do owns all that it uses. One thread.
class leavable_threads {
public:
  void start(std::function<void()> work) {
    {
      const std::lock_guard lock(state_->mutex);
      ++state_->running;
    }
    std::thread([state = state_, work = std::move(work)]() mutable {
      work();
      work = nullptr; // what it owns goes before anybody is told
      const std::lock_guard lock(state->mutex);
      --state->running;
      state->changed.notify_all();
    }).detach();
  }

  /// Waits until all have ended, `wait_max` at most. How many have not.
  [[nodiscard]] std::size_t join(std::chrono::nanoseconds wait_max) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, wait_max, [this] { return state_->running == 0; });
    return state_->running;
  }

private:
  struct shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t running = 0;
  };
  std::shared_ptr<shared> state_ = std::make_shared<shared>();
};

} // namespace godwit::gpu::cuda::native
