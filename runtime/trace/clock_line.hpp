#pragma once

#include "trace/file_format.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace godwit::runtime::trace {

/// What must be added to a clock at one of its times: at least, or at most, so much.
struct clock_bound {
  std::int64_t at;
  std::int64_t add;
  bool upper;
};

/// Takes the times of one clock to those of another: by adding the same to all, or, where the clock drifts, more and
/// more. Never turns the order of times around.
class clock_line {
public:
  clock_line() : clock_line(0) {}
  explicit clock_line(std::int64_t add) : knots_{{0, add}} {}
  /// In the middle of what is allowed, stretch by stretch. Bounds in both directions must be there.
  [[nodiscard]] static clock_line through(std::vector<clock_bound> bounds);

  [[nodiscard]] std::int64_t operator()(std::int64_t time) const noexcept {
    return std::clamp(time + bend(time), -value_max, value_max);
  }
  [[nodiscard]] bool straight() const noexcept { return knots_.size() == 1; }
  /// What is added at its first knot.
  [[nodiscard]] std::int64_t first() const noexcept { return knots_.front().add; }
  /// By so many parts of a million it goes too slowly, from the first knot to the last.
  [[nodiscard]] double parts_of_a_million() const noexcept;

private:
  static constexpr std::int64_t value_max = 2 * format::time_max - 1; // of a time with an offset
  struct knot {
    std::int64_t at;
    std::int64_t add;
  };
  [[nodiscard]] std::int64_t bend(std::int64_t time) const noexcept;
  std::vector<knot> knots_;
};

} // namespace godwit::runtime::trace
