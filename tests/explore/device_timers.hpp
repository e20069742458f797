#pragma once

#include <godwit/runtime/async/timer_source.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace godwit::explore {

/// The timers of a machine's devices, which may be slow or stuck.
class device_timers final : public runtime::async::timer_source {
public:
  explicit device_timers(runtime::async::timer_source& of_machine) : timers_(of_machine) {}

  void slow_down(std::uint64_t times) noexcept { times_ = std::max<std::uint64_t>(1, times); }
  /// What begins from now on ends after this moment, and after those of earlier calls.
  void stick_until(std::chrono::nanoseconds when) noexcept { stuck_ = std::max(stuck_, when); }
  void unstick() noexcept { stuck_ = std::chrono::nanoseconds{0}; }

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return timers_.now(); }
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override {
    delay *= static_cast<std::int64_t>(times_);
    return timers_.call_after(std::max(delay, stuck_ - now()), std::move(function));
  }
  bool cancel(timer_id id) override { return timers_.cancel(id); }

private:
  runtime::async::timer_source& timers_;
  std::uint64_t times_ = 1;
  std::chrono::nanoseconds stuck_{0};
};

} // namespace godwit::explore
