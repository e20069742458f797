#include "sim/cluster.hpp"

#include "sim/cluster_load.hpp"
#include "sim/messages.hpp"
#include "sim/processor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace godwit::bench {

namespace {

using std::chrono::steady_clock;
using way = figure::direction;

/// Requests for each instance, whatever their number: 1,024 instances serve 100,000.
constexpr double requests_each = 100'000.0 / 1024;

struct run_cost {
  double seconds = 0;   ///< by the wall
  double processor = 0; ///< seconds
  std::uint64_t events = 0;
  [[nodiscard]] double ns_per_event() const { return processor * 1e9 / static_cast<double>(events); }
};

/// The cluster's start and end are part of the time, though not of the events.
run_cost serve(std::uint32_t instances, std::size_t requests) {
  auto options = simulated_load(instances, requests);
  const auto begin = steady_clock::now();
  const auto processor = processor_seconds();
  const auto result = serve_all(std::move(options));
  run_cost out;
  out.processor = processor_seconds() - processor;
  out.seconds = std::chrono::duration<double>(steady_clock::now() - begin).count();
  out.events = result.events;
  return out;
}

std::size_t share_of(std::uint32_t instances) {
  return static_cast<std::size_t>(requests_each * static_cast<double>(instances));
}

/// The rate of messages and timers next to that of bare CAF's messages.
void measure_m_m(session& out) {
  if (!out.wants("sim/m_m_16x10000") && !out.wants("sim/m_m_16x10000_rate")) return;
  std::vector<double> seconds;
  const auto c = interleave(
      std::min(out.repetitions(), 3),
      [&] {
        const auto cost = serve(16, 10'000);
        seconds.push_back(cost.seconds); // the first is interleave's warm-up
        return 1000 / cost.ns_per_event();
      },
      [] { return caf_million_per_second(); });
  figure f;
  f.name = "sim/m_m_16x10000";
  f.value = median({seconds.begin() + 1, seconds.end()});
  f.unit = "s";
  f.goal = figure::goal_type{way::at_most, 30, f.value};
  out.add(f);
  figure rate;
  rate.name = "sim/m_m_16x10000_rate";
  rate.value = c.ours;
  rate.unit = "million/s";
  rate.reference = c.reference;
  rate.ratio = c.ratio;
  out.add(rate);
}

/// Each size next to 16 instances that have the same to do each, before and after it.
void measure_scale(session& out) {
  for (const std::uint32_t instances : {64U, 256U, 1024U}) {
    const auto name = "sim/scale/" + std::to_string(instances);
    if (!out.wants(name)) continue;
    std::vector<double> ours, reference, ratios;
    const auto small = [&] {
      std::vector<double> all;
      for (int i = 0; i < 3; ++i) all.push_back(serve(16, share_of(16)).ns_per_event());
      return median(all);
    };
    run_cost large;
    const int repetitions = instances == 1024 ? 1 : std::min(out.repetitions(), 3);
    for (int i = 0; i < repetitions; ++i) {
      const auto before = small();
      large = serve(instances, share_of(instances));
      const auto after = small();
      ours.push_back(large.ns_per_event());
      reference.push_back((before + after) / 2);
      ratios.push_back(ours.back() / reference.back());
    }
    figure f;
    f.name = name;
    f.value = median(ours);
    f.unit = "ns per event";
    f.reference = median(reference);
    f.ratio = median(ratios);
    if (instances == 1024) f.goal = figure::goal_type{way::at_most, 1.5, *f.ratio};
    out.add(f);
    figure whole;
    whole.name = name + "_seconds";
    whole.value = large.seconds;
    whole.unit = "s";
    whole.reference = large.processor;
    whole.ratio = large.seconds / large.processor;
    out.add(whole);
  }
}

} // namespace

void measure_clusters(session& out) {
  measure_m_m(out);
  measure_scale(out);
}

} // namespace godwit::bench
