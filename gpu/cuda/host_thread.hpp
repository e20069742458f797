#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace godwit::gpu::cuda {

/// The thread that talks to a device for an executor, so that its caller, an actor, never waits for the driver.
/// Runs what is posted, in order; its poster bounds how much that is. Destroying it runs what is left.
///
/// It looks for work for some 50 microseconds before it sleeps: to wake a thread may take as long, and a device that
/// has nothing to do waits for it.
class host_thread {
public:
  host_thread();
  ~host_thread();
  host_thread(const host_thread&) = delete;
  host_thread& operator=(const host_thread&) = delete;
  /// The work does not throw.
  void post(std::function<void()> work);
  /// Work will be posted soon: the thread wakes up beside what its caller does until then. Costs time, nothing else.
  void expect();

private:
  void run();
  void look() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::atomic<std::uint32_t> queued_{0}; ///< for who looks without the mutex
  bool expected_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace godwit::gpu::cuda
