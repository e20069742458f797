#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace godwit::bench {

inline constexpr std::uint32_t instances = 1000;

/// Reports of instances as a scheduler gets them: some full, some idle, most in between, nearly half of them beyond one
/// of the default thresholds of migration. The counts of requests grow with `running`, about so many on each; the
/// pools with them, so that freeness stays what it is.
class reported_cluster {
public:
  explicit reported_cluster(std::uint32_t running);
  [[nodiscard]] const std::vector<protocols::load_report>& loads() const noexcept { return loads_; }
  /// The next report of an instance, with other numbers.
  const protocols::load_report& next();

private:
  void fill(protocols::load_report& report);
  protocols::workload::counter_random random_{1};
  std::uint32_t running_;
  std::vector<protocols::load_report> loads_;
};

/// A plain sort, which everything else is held against: freeness and instance of all of them, sorted anew.
class plain_sort {
public:
  explicit plain_sort(const std::vector<protocols::load_report>& loads);
  /// The freest instance.
  [[nodiscard]] protocols::instance_id operator()();

private:
  std::vector<std::pair<double, protocols::instance_id>> unsorted_, sorted_;
};

} // namespace godwit::bench
