#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace godwit::runtime::async {

/// As long as any wait lasts: a year.
inline constexpr std::chrono::nanoseconds longest_wait = std::chrono::hours{24 * 365};

/// A wait that may be added to a clock's time. The longest that a duration can say ("for ever") would run over, and end
/// at once.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::nanoseconds bounded_wait(std::chrono::duration<Rep, Period> wait) noexcept {
  // in its own unit: as nanoseconds it might have run over already
  return wait < std::chrono::duration_cast<std::chrono::duration<Rep, Period>>(longest_wait) ? wait : longest_wait;
}

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
  /// After `longest_wait` at the latest.
  virtual timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) = 0;
  /// True where the function had not been started and never will be.
  virtual bool cancel(timer_id id) = 0;
};

} // namespace godwit::runtime::async
