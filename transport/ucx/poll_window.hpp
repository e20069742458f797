#pragma once

#include <chrono>

namespace godwit::transport::ucx {

/// How long a thread goes on polling after it had something to do.
///
/// Problem: to wake a thread costs tens of microseconds on both sides, to poll in vain costs those who compute.
/// Contract: it polls for `longest` as long as what wakes it comes within that time of what was there before, and for
/// half as long after each sleep from which it is woken later, down to not at all (to be woken takes about `longest`,
/// which does not count): as hypervisors decide how long an idle processor polls before it halts.
class poll_window {
public:
  using time = std::chrono::steady_clock::time_point;
  using duration = std::chrono::steady_clock::duration;

  explicit poll_window(duration longest) noexcept : longest_(longest), length_(longest) {}

  /// There was something to do, from `began` to `ended`.
  void worked(time began, time ended) noexcept {
    if (slept_) length_ = began - last_ <= 2 * longest_ ? longest_ : length_ > longest_ / 8 ? length_ / 2 : duration{0};
    slept_ = false;
    last_ = ended;
  }
  void sleeps() noexcept { slept_ = true; }
  [[nodiscard]] bool open(time now) const noexcept { return now - last_ < length_; }

private:
  duration longest_, length_;
  time last_{};
  bool slept_ = false; ///< since then
};

} // namespace godwit::transport::ucx
