#pragma once

#include <godwit/runtime/async/timer_source.hpp>

#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

namespace godwit::actors::sim {

/// The timers of a device, on those of its process. The device may be slow: what begins from then on takes longer.
class device_timers final : public runtime::async::timer_source {
public:
  device_timers(runtime::async::timer_source& of_process, double times) : timers_(of_process), times_(times) {}

  void slow_down(double times) noexcept { times_ = times; }

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return timers_.now(); }
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override {
    if (times_ != 1) delay = std::chrono::nanoseconds(std::llround(static_cast<double>(delay.count()) * times_));
    return timers_.call_after(delay, std::move(function));
  }
  bool cancel(timer_id id) override { return timers_.cancel(id); }

private:
  runtime::async::timer_source& timers_;
  double times_;
};

} // namespace godwit::actors::sim
