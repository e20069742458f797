#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace godwit::runtime::async {

/// Time since some fixed start, never going back. The world's clock, or the simulated one.
class clock {
public:
  virtual ~clock() = default;
  [[nodiscard]] virtual std::chrono::nanoseconds now() const noexcept = 0;
};

/// Calls functions later, for code that is no actor (a simulated device). An actor uses `sleep_for`.
class timer_source : public clock {
public:
  /// 0: none.
  using timer_id = std::uint64_t;
  /// `function` runs once, on a thread of the source (in a simulation: on the only one), and must only post something.
  virtual timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) = 0;
  /// True where the function had not been started and never will be.
  virtual bool cancel(timer_id id) = 0;
};

} // namespace godwit::runtime::async
