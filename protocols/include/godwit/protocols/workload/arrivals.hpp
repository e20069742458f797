#pragma once

#include <cstdint>
#include <vector>

namespace godwit::protocols::workload {

/// How requests arrive. Gaps between them are Gamma distributed with shape 1/CV^2, as in the Llumnix artifact: CV 1 is
/// a Poisson process, more is burstier, 0 is a metronome.
struct arrival_process {
  double rate = 0.0; ///< requests per second; 0 or infinite: all at once
  double cv = 1.0;   ///< coefficient of variation of the gaps, in [0, 100]

  [[nodiscard]] bool all_at_once() const noexcept;
  /// rate >= 0 and cv within its bounds, neither a NaN.
  [[nodiscard]] bool valid() const noexcept;
};

/// Arrival times in ns, ascending, the first at 0. An invalid process is a caller's bug.
[[nodiscard]] std::vector<std::int64_t> arrival_times(const arrival_process& process, std::size_t count,
                                                      std::uint64_t seed);

} // namespace godwit::protocols::workload
