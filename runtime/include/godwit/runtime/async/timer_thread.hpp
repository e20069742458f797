#pragma once

#include <godwit/runtime/async/timer_source.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

namespace godwit::runtime::async {

/// A timer_source on the machine's steady clock, with a thread of its own. Functions run on that thread, one after the
/// other.
class timer_thread final : public timer_source {
public:
  timer_thread();
  timer_thread(const timer_thread&) = delete;
  timer_thread& operator=(const timer_thread&) = delete;
  /// Functions whose time has not come are dropped; one that runs is waited for.
  ~timer_thread() override;
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override;
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override;
  bool cancel(timer_id id) override;

private:
  using key = std::pair<std::chrono::nanoseconds, timer_id>;
  void run();
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<key, std::function<void()>> due_;
  std::unordered_map<timer_id, std::chrono::nanoseconds> times_;
  timer_id last_ = 0;
  bool ending_ = false;
  std::thread thread_; ///< last: starts when the rest is there
};

} // namespace godwit::runtime::async
