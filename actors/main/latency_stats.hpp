#pragma once

#include <boost/json/object.hpp>

#include <cstddef>
#include <vector>

namespace godwit::main {

/// A sample in brief, in the unit of its values. All 0 for an empty sample.
struct latency_stats {
  std::size_t count = 0;
  double mean = 0.0;
  double p50 = 0.0;
  double p90 = 0.0;
  double p99 = 0.0;
  double max = 0.0;
};

/// Percentiles by linear interpolation between the closest ranks, as numpy's default.
[[nodiscard]] latency_stats summarise(std::vector<double> values);

/// Of nothing there are no figures, which are not 0: they are null.
[[nodiscard]] boost::json::object object_of(const latency_stats& s);

} // namespace godwit::main
