#pragma once

#include <functional>

namespace godwit::main {

struct found_rate {
  double rate = 0;      ///< 0: none holds
  bool bounded = false; ///< a higher one was tried, and did not hold
};

/// The highest rate that `holds`, within `precision` (0.05: a rate of at most 5 % more did not hold), looked for from
/// `first` on, up and down by doubling and then by halving what is left, on a scale of ratios. What holds at one rate
/// is taken to hold below it; where that is not so, some rate is found that holds while one close above it does not.
/// None below `first` / 256 and above `first` x 4096 is tried. `holds` is called some ten to thirty times, never twice
/// with one rate.
[[nodiscard]] found_rate highest_rate(const std::function<bool(double)>& holds, double first, double precision);

} // namespace godwit::main
