// What the global scheduler's decisions cost with 1,000 instances, next to a plain sort of the same instances by
// freeness, and that the number of running requests does not matter.

#include "scheduler/actor.hpp"
#include "scheduler/central.hpp"
#include "scheduler/cluster.hpp"
#include "support/allocations.hpp"
#include "support/bench.hpp"

#include <godwit/protocols/policy/dispatch.hpp>
#include <godwit/protocols/policy/pairing.hpp>
#include <godwit/protocols/policy/scaling.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace godwit::bench;
using namespace godwit::protocols;
using std::chrono::steady_clock;
using way = figure::direction;

constexpr int picks_per_run = 20'000;
constexpr int reports_per_run = 100'000;
constexpr int rounds_per_run = 50;
constexpr std::uint32_t few = 10;
constexpr std::uint32_t many = 10'000;

double us_since(steady_clock::time_point begin) {
  const std::chrono::duration<double, std::micro> elapsed = steady_clock::now() - begin;
  return elapsed.count();
}

double percentile(std::vector<double>& values, double share) {
  const auto rank = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

/// A dispatcher that has the reports of a cluster.
struct informed {
  reported_cluster cluster;
  std::unique_ptr<dispatcher> policy;
  explicit informed(std::uint32_t running, std::string_view name = "freeness")
      : cluster(running), policy(make_dispatcher(name)) {
    for (const auto& load : cluster.loads()) policy->report(load);
  }
  /// Microseconds of each pick; between two of them a report comes in.
  std::vector<double> picks() {
    std::vector<double> times;
    times.reserve(picks_per_run);
    for (int i = 0; i < picks_per_run; ++i) {
      policy->report(cluster.next());
      const auto begin = steady_clock::now();
      const auto choice = policy->pick({.tokens = 200});
      times.push_back(us_since(begin));
      if (!choice) std::abort(); // it would measure something else
    }
    return times;
  }
  double report_us() {
    std::vector<load_report> reports;
    reports.reserve(reports_per_run);
    for (int i = 0; i < reports_per_run; ++i) reports.push_back(cluster.next());
    const auto begin = steady_clock::now();
    for (const auto& report : reports) policy->report(report);
    return us_since(begin) / reports_per_run;
  }
};

/// Rounds of pairing; before each a tenth of the instances reports. Those with few requests and those with many are
/// measured in the same memory, or where it happens to lie would be measured too.
class rounds {
public:
  double round_us(reported_cluster& cluster) {
    std::vector<double> times;
    for (int i = 0; i < rounds_per_run; ++i) {
      for (std::uint32_t j = 0; j < instances / 10; ++j) (void)cluster.next();
      loads_ = cluster.loads();
      const auto begin = steady_clock::now();
      const auto pairs = pair_instances(loads_, {});
      times.push_back(us_since(begin));
      if (pairs.size() < instances / 10) std::abort(); // it would measure something else
    }
    return median(std::move(times));
  }

private:
  std::vector<load_report> loads_;
};

std::vector<double> sorts(plain_sort& sort, int count) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto begin = steady_clock::now();
    const auto freest = sort();
    times.push_back(us_since(begin));
    if (freest.value() == 0) std::abort();
  }
  return times;
}
double mean_sort_us(plain_sort& sort, int count) {
  double sum = 0;
  for (const auto us : sorts(sort, count)) sum += us;
  return sum / count;
}

figure held_to(std::string name, const comparison& c, const char* unit, double scale, double bound) {
  figure f;
  f.name = std::move(name);
  f.value = c.ours * scale;
  f.unit = unit;
  f.reference = c.reference * scale;
  f.ratio = c.ratio;
  f.goal = figure::goal_type{way::at_most, bound, f.value};
  return f;
}

void bench_dispatch(session& out) {
  for (const auto policy : dispatcher_names()) {
    auto name = std::string("scheduler/dispatch_p99_us");
    if (policy != dispatcher_names().front()) name += "/" + std::string(policy);
    if (!out.wants(name)) continue;
    informed scheduler{few, policy};
    plain_sort sort{scheduler.cluster.loads()};
    const auto c = interleave(
        out.repetitions(),
        [&] {
          auto times = scheduler.picks();
          return percentile(times, 0.99);
        },
        [&] {
          auto times = sorts(sort, picks_per_run / 10);
          return percentile(times, 0.99);
        });
    out.add(held_to(name, c, "us", 1, 20));
  }
}

void bench_reports(session& out) {
  if (!out.wants("scheduler/report_us")) return;
  informed scheduler{few};
  plain_sort sort{scheduler.cluster.loads()};
  const auto c = interleave(
      out.repetitions(), [&] { return scheduler.report_us(); }, [&] { return mean_sort_us(sort, picks_per_run / 10); });
  out.add(held_to("scheduler/report_us", c, "us", 1, 2));
}

void bench_pairing(session& out) {
  if (!out.wants("scheduler/pairing_ms")) return;
  rounds ours;
  reported_cluster cluster{few};
  plain_sort sort{cluster.loads()};
  const auto c = interleave(
      out.repetitions(), [&] { return ours.round_us(cluster); }, [&] { return mean_sort_us(sort, rounds_per_run); });
  out.add(held_to("scheduler/pairing_ms", c, "ms", 1e-3, 1));
}

/// The same with reports of instances that run 10 requests each, and 10,000.
void bench_many_requests(session& out) {
  constexpr double about_equal = 1.25;
  if (out.wants("scheduler/dispatch_10000_running")) {
    informed a{many};
    informed b{few};
    const auto c = interleave(
        out.repetitions(),
        [&] {
          auto times = a.picks();
          return percentile(times, 0.5);
        },
        [&] {
          auto times = b.picks();
          return percentile(times, 0.5);
        });
    out.add(compare("scheduler/dispatch_10000_running", c, "us", way::at_most, about_equal));
  }
  if (out.wants("scheduler/report_10000_running")) {
    informed a{many};
    informed b{few};
    const auto c = interleave(
        out.repetitions(), [&] { return a.report_us(); }, [&] { return b.report_us(); });
    out.add(compare("scheduler/report_10000_running", c, "us", way::at_most, about_equal));
  }
  if (out.wants("scheduler/pairing_10000_running")) {
    rounds ours;
    reported_cluster a{many};
    reported_cluster b{few};
    const auto c = interleave(
        out.repetitions(), [&] { return ours.round_us(a); }, [&] { return ours.round_us(b); });
    out.add(compare("scheduler/pairing_10000_running", c, "us", way::at_most, about_equal));
  }
}

/// From smaps_rollup: statm may be off by 32 pages, by how the kernel counts.
double resident_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Rss:")) return std::strtod(line.c_str() + 4, nullptr);
  return 0;
}

figure at_most(const char* name, double value, const char* unit, double bound) {
  figure f;
  f.name = name;
  f.value = value;
  f.unit = unit;
  f.goal = figure::goal_type{way::at_most, bound, value};
  return f;
}

/// A million picks and reports, and after each thousand a round of pairing and of autoscaling.
void bench_memory(session& out) {
  if (!out.wants("scheduler/allocations") && !out.wants("scheduler/rss_growth")) return;
  informed scheduler{few};
  scaling_settings scaling;
  scaling.mode = scaling_mode::dry_run;
  autoscaler scaler{scaling};
  std::uint64_t allocated = 0;
  double resident = resident_kib(); // reading it the first time has its own price
  constexpr int thousands = 1000;
  constexpr int warm_up = 100;
  for (int i = 0; i < thousands + warm_up; ++i) {
    if (i == warm_up) resident = resident_kib();
    const auto before = allocations();
    for (int j = 0; j < 500; ++j) {
      scheduler.policy->report(scheduler.cluster.next());
      if (!scheduler.policy->pick({.tokens = 200})) std::abort();
    }
    if (i >= warm_up) allocated += allocations() - before;
    (void)pair_instances(scheduler.policy->reports(), {});
    scaling_view view;
    view.now_ns = i * 200'000'000LL;
    view.loads = scheduler.policy->reports();
    (void)scaler.step(view);
  }
  const auto growth = resident_kib() - resident; // before printing touches pages of its own
  out.add(at_most("scheduler/allocations", static_cast<double>(allocated), "per 1e6 calls", 0));
  out.add(at_most("scheduler/rss_growth", growth, "KiB", 64));
}

} // namespace

int main(int argc, char** argv) {
  session out{argc, argv, 11};
  bench_dispatch(out);
  bench_reports(out);
  bench_pairing(out);
  bench_many_requests(out);
  bench_memory(out);
  measure_asks(out);
  measure_central(out);
  return out.result();
}
