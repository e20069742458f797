#pragma once

#include "sim/due_queue.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace godwit::runtime::sim::detail {

/// Functions by the time at which they are due. Equal times: as they were added.
class timer_queue {
public:
  std::uint64_t add(std::chrono::nanoseconds time, std::function<void()> function) {
    return due_.add(time, std::move(function));
  }
  bool cancel(std::uint64_t id) {
    if (due_.find(id) == nullptr) return false;
    const auto gone = due_.take(id); // its closure may cancel others while it is destroyed
    return true;
  }
  [[nodiscard]] bool empty() const noexcept { return due_.empty(); }
  [[nodiscard]] std::chrono::nanoseconds earliest() const noexcept { return due_.earliest(); }
  void fire_one() { due_.take(due_.first())(); }
  void clear() { // as above
    const auto gone = std::exchange(due_, {});
  }

private:
  due_queue<std::function<void()>> due_;
};

} // namespace godwit::runtime::sim::detail
