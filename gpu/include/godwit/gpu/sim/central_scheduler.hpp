#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace godwit::gpu::sim {

/// One scheduler that plans the steps of many devices, one after another, as a centralised one would that follows every
/// request (what Llumnix, OSDI '24, figure 16 compares itself with).
///
/// A device that wants to begin a step asks and stands still until its step has been planned: who asks first is planned
/// first, and each plan takes a fixed time and one for each of the step's requests. So devices queue more and more as
/// the plans of all come to take as long as a step, and from there on a step takes as long as these. What is in a step
/// is fixed when it asks. Not in it: what messages to and from that scheduler take.
class central_scheduler {
public:
  central_scheduler(std::chrono::nanoseconds a_step, std::chrono::nanoseconds a_request) noexcept
      : a_step_(a_step), a_request_(a_request) {}

  /// How long a device that asks at `now`, which does not fall, stands still before its step of so many requests.
  [[nodiscard]] std::chrono::nanoseconds plan(std::chrono::nanoseconds now, std::size_t requests) noexcept {
    if (!begun_) return std::chrono::nanoseconds{0};
    free_at_ = std::max(now, free_at_) + a_step_ + a_request_ * static_cast<std::int64_t>(requests);
    const auto stall = free_at_ - now;
    ++steps_;
    stalls_ += stall;
    longest_ = std::max(longest_, stall);
    return stall;
  }

  /// Until `begin` plans take no time, and none counts.
  void stand_by() noexcept { begun_ = false; }
  void begin() noexcept { begun_ = true; }
  [[nodiscard]] std::chrono::nanoseconds of_a_step() const noexcept { return a_step_; }
  [[nodiscard]] std::chrono::nanoseconds of_a_request() const noexcept { return a_request_; }
  /// Counts anew.
  void reset_counts() noexcept {
    steps_ = 0;
    stalls_ = longest_ = std::chrono::nanoseconds{0};
  }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }              ///< that were planned
  [[nodiscard]] std::chrono::nanoseconds stalls() const noexcept { return stalls_; } ///< together
  [[nodiscard]] std::chrono::nanoseconds longest_stall() const noexcept { return longest_; }

private:
  std::chrono::nanoseconds a_step_, a_request_;
  std::chrono::nanoseconds free_at_{0};
  bool begun_ = true;
  std::uint64_t steps_ = 0;
  std::chrono::nanoseconds stalls_{0}, longest_{0};
};

} // namespace godwit::gpu::sim
