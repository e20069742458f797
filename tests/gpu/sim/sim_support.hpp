#pragma once

#include <godwit/runtime/async/timer_source.hpp>

#include <map>
#include <utility>

namespace godwit::gpu::sim::testing {

/// Time that passes when the test says so.
class hand_timers final : public runtime::async::timer_source {
public:
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return now_; }
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override {
    due_.emplace(std::pair{now_ + delay, ++last_}, std::move(function));
    return last_;
  }
  bool cancel(timer_id id) override {
    return std::erase_if(due_, [&](const auto& entry) { return entry.first.second == id; }) > 0;
  }
  /// Runs all that is due within `span` from now.
  void pass(std::chrono::nanoseconds span) {
    const auto end = now_ + span;
    while (!due_.empty() && due_.begin()->first.first <= end) {
      auto next = due_.extract(due_.begin());
      now_ = next.key().first;
      next.mapped()();
    }
    now_ = end;
  }
  [[nodiscard]] std::size_t waiting() const { return due_.size(); }

private:
  std::chrono::nanoseconds now_{0};
  timer_id last_ = 0;
  std::map<std::pair<std::chrono::nanoseconds, timer_id>, std::function<void()>> due_;
};

} // namespace godwit::gpu::sim::testing
