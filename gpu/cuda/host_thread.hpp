#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace godwit::gpu::cuda {

/// The thread that talks to a device for an executor, so that its caller, an actor, never waits for the driver.
/// Runs what is posted, in order; its poster bounds how much that is. Destroying it runs what is left.
class host_thread {
public:
  host_thread();
  ~host_thread();
  host_thread(const host_thread&) = delete;
  host_thread& operator=(const host_thread&) = delete;
  /// The work does not throw.
  void post(std::function<void()> work);

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace godwit::gpu::cuda
