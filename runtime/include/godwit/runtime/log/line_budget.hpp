#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

namespace godwit::runtime::log {

/// How many lines of one kind may be written in a second: who makes trouble must not fill the disk with it.
/// Thread-safe.
class line_budget {
public:
  explicit line_budget(std::uint32_t lines_max) : lines_max_(lines_max) {}

  /// Empty: the line is left out. Otherwise how many were, since the last one that was not, in seconds that are over.
  [[nodiscard]] std::optional<std::uint64_t> take(std::chrono::nanoseconds now) {
    const std::lock_guard lock(mutex_);
    std::uint64_t before = 0;
    if (!began_ || now - *began_ >= std::chrono::seconds(1)) {
      began_ = now;
      before = std::exchange(left_out_, 0);
      written_ = 0;
    }
    if (written_ < lines_max_) {
      ++written_;
      return before;
    }
    ++left_out_;
    return std::nullopt;
  }

  /// How many were left out and are not told yet: at the end.
  [[nodiscard]] std::uint64_t rest() {
    const std::lock_guard lock(mutex_);
    return std::exchange(left_out_, 0);
  }

private:
  const std::uint32_t lines_max_;
  std::mutex mutex_;
  std::optional<std::chrono::nanoseconds> began_;
  std::uint32_t written_ = 0;
  std::uint64_t left_out_ = 0;
};

} // namespace godwit::runtime::log
