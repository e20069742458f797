#include "cuda/host_thread.hpp"

#include "device/waiting.hpp"

#include <utility>

namespace godwit::gpu::cuda {

host_thread::host_thread() : thread_([this] { run(); }) {}

host_thread::~host_thread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void host_thread::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    queued_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_one();
}

void host_thread::expect() {
  {
    const std::lock_guard lock(mutex_);
    expected_ = true;
  }
  changed_.notify_one();
}

void host_thread::look() const {
  constexpr int looks = 6 * looks_max;
  for (int i = 0; i < looks && queued_.load(std::memory_order_acquire) == 0; ++i) relax();
}

void host_thread::run() {
  for (;;) {
    look();
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || expected_ || !queue_.empty(); });
      expected_ = false;
      if (queue_.empty()) {
        if (stopping_) return;
        continue;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
      queued_.fetch_sub(1, std::memory_order_relaxed);
    }
    next();
  }
}

} // namespace godwit::gpu::cuda
