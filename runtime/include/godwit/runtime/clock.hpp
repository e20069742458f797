#pragma once

#include <godwit/runtime/async/timer_source.hpp>

namespace godwit::runtime {

using async::clock;
using async::timer_source;

/// The machine's steady clock, counted from this object's making.
class steady_clock final : public clock {
public:
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override {
    return std::chrono::steady_clock::now() - start_;
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace godwit::runtime
