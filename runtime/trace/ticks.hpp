#pragma once

#include <godwit/runtime/clock.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>

namespace godwit::runtime::trace::detail {

/// Moments as a recorder notes them: the processor's counter where it runs evenly, which costs half of what the clock
/// does, and the ns of the clock that they stand for. On a simulated clock they are its ns.
class tick_source {
public:
  explicit tick_source(const runtime::clock* simulated);

  [[nodiscard]] std::int64_t now() const noexcept {
#if defined(__x86_64__)
    if (counter_) return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#endif
    return now_ns();
  }
  [[nodiscard]] std::int64_t now_ns() const noexcept { return clock().now().count(); }
  [[nodiscard]] const runtime::clock& clock() const noexcept { return simulated_ ? *simulated_ : own_; }

  /// Compares counter and clock anew. Before ticks are read as ns; from any thread.
  void adjust();
  [[nodiscard]] std::int64_t to_ns(std::int64_t ticks) const;

private:
  struct anchor {
    std::int64_t ticks = 0;
    std::int64_t ns = 0;
  };
  [[nodiscard]] anchor look() const noexcept;
  const runtime::clock* simulated_;
  steady_clock own_;
  bool counter_ = false;
  mutable std::mutex mutex_;
  anchor first_;
  anchor last_;
  double ns_per_tick_ = 0; ///< 0: not known yet
};

} // namespace godwit::runtime::trace::detail
