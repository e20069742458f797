#pragma once

#include <functional>

namespace godwit::main {

/// The highest rate that `holds`, within `precision` (0.05: the next one tried, 5 % above it, did not), looked for from
/// `first` on, up and down by doubling and then by halving what is left, on a scale of ratios. What holds at one rate
/// is taken to hold below it. 0 where none down to `first` / 4096 holds; the highest tried, about `first` x 4096, where
/// all do. `holds` is called some ten to thirty times, never twice with one rate.
[[nodiscard]] double highest_rate(const std::function<bool(double)>& holds, double first, double precision);

} // namespace godwit::main
