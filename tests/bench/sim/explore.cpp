#include "sim/explore.hpp"

#include "sim/processor.hpp"

#include "explore/requests.hpp"
#include "explore/run.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace godwit::bench {

namespace {

constexpr std::uint64_t seeds = 200;
constexpr double seeds_a_minute_least = 1000;

/// Of processor time: of one core that it has for itself.
double seeds_per_minute(const std::string& scenario, std::uint64_t first) {
  const auto begin = processor_seconds();
  for (auto seed = first; seed < first + seeds; ++seed)
    if (!explore::run(explore::draw(scenario, seed)).broken.empty()) std::abort(); // it would measure something else
  return static_cast<double>(seeds) * 60 / (processor_seconds() - begin);
}

} // namespace

void measure_explore(session& out) {
  const auto smallest = explore::recipes().front().name;
  const auto name = "sim/explore_" + smallest;
  if (!out.wants(name)) return;
  (void)explore::calm_answers(); // once in each search
  std::vector<double> rates;
  for (int i = 0; i < out.repetitions(); ++i)
    rates.push_back(seeds_per_minute(smallest, 1 + seeds * static_cast<std::uint64_t>(i)));
  figure f;
  f.name = name;
  f.value = median(rates);
  f.unit = "seeds/min";
  f.goal = figure::goal_type{figure::direction::at_least, seeds_a_minute_least, f.value};
  out.add(f);
}

} // namespace godwit::bench
