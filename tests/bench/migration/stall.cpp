#include "migration/stall.hpp"

#include "migration/stream.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace godwit::bench {

namespace {

using protocols::instance_id;

/// Of requests, in tokens. A prompt of the last takes minutes where cores compute it.
std::vector<std::uint32_t> lengths_for(const served_model& model) {
  std::vector<std::uint32_t> out{256, 1024, 4096, 8192, 16384};
  if (model.on_gpu()) out.push_back(32768);
  return out;
}
/// Tokens before, and after, each migration that tell the pace without it; more where it takes more.
constexpr std::size_t quiet_tokens = 8;
/// No migration begins with a request that is so much longer than its label says.
constexpr double growth_max = 1.2;
/// That a request may grow while it is measured, beyond that: it decodes all the while that it moves and is looked at,
/// on a GPU some thousand tokens a move.
std::uint32_t growth_room(const served_model& model) { return model.on_gpu() ? 12'000 : 2048; }

/// One migration as the client saw it. Seconds.
struct sample {
  double step = 0;          ///< median gap without a migration, just before and after
  double stall = 0;         ///< longest gap around the migration, less `step`
  double control = 0;       ///< the same of as many gaps beside it: the longer one looks, the longer the longest
  double handover = 0;      ///< the gap between the source's last token and the destination's first, less `step`
  std::uint32_t length = 0; ///< of the request, in tokens, at the order
  std::size_t gaps = 0;     ///< around the migration
  protocols::migration_report report;
};

struct series {
  std::vector<sample> samples;
  void add(sample s) { samples.push_back(std::move(s)); }
  template <class F> [[nodiscard]] double median_of(F what) const {
    std::vector<double> values;
    for (const auto& s : samples) values.push_back(what(s));
    return median(std::move(values));
  }
};

struct length_result {
  series live, blocking;
  std::vector<double> recomputes; ///< to the first token, in seconds
};

/// The longest of the last `count` gaps.
double longest_of(const std::vector<double>& gaps, std::size_t count) {
  return *std::max_element(gaps.end() - static_cast<std::ptrdiff_t>(count), gaps.end());
}

/// `expected` gaps around the migration: half as many before it and the others after it are the control.
sample migrate_once(stream& request, instance_id to, std::size_t expected) {
  const auto& clock = request.clock();
  const auto begin = clock.count() - 1;
  clock.wait_for(begin + 1 + std::max(quiet_tokens, expected / 2));
  const auto ordered = clock.count() - 1; // the gap that is open at the order counts
  sample out;
  out.length = request.length();
  out.report = request.move(to);
  const auto returned = now();
  // The destination's first tokens may still be on their way.
  const auto moved = clock.count() + 2;
  clock.wait_for(moved);
  clock.wait_for(moved + std::max(quiet_tokens, moved - ordered)); // enough, whatever was expected

  const auto moments = clock.from(begin);
  const auto at = [&](std::size_t token) { return moments.begin() + static_cast<std::ptrdiff_t>(token - begin); };
  auto quiet = gaps_of({at(begin), at(ordered) + 1});
  const auto after = gaps_of({at(moved - 1), moments.end()});
  const auto around = gaps_of({at(ordered), at(moved - 1) + 1});
  quiet.insert(quiet.end(), after.begin(), after.end());
  out.step = median(quiet);
  out.stall = longest_of(around, around.size()) - out.step;
  // The source hears of the adoption long before the destination's first token.
  const auto first = std::find_if(at(ordered), moments.end(), [&](moment m) { return m > returned; });
  out.handover = seconds_between(*(first - 1), *first) - out.step;
  out.gaps = around.size();
  // `quiet` begins with those before the order.
  const auto before = std::min(ordered - begin, out.gaps / 2);
  const auto far = quiet.begin() + static_cast<std::ptrdiff_t>(ordered - begin);
  out.control = std::max(before > 0 ? *std::max_element(far - static_cast<std::ptrdiff_t>(before), far) : 0.0,
                         longest_of(quiet, out.gaps - before)) -
                out.step;
  return out;
}

length_result measure_length(world& where, std::uint32_t length, int repetitions) {
  length_result out;
  std::optional<stream> request;
  const instance_id home{0}, live{1}, blocking{2};
  const auto not_too_long = [&] {
    if (request && request->length() <= growth_max * length) return;
    request.reset();
    request.emplace(where, length);
    out.recomputes.push_back(request->first_token());
    // Once everywhere, so that no measured copy is the first to touch its memory.
    for (const auto to : {live, blocking, home}) request->move(to);
  };
  const auto go_live = [&](instance_id to) {
    out.live.add(migrate_once(*request, to, out.live.samples.empty() ? 0 : out.live.samples.back().gaps));
  };
  // Round trips of a short one are quick, and one longest gap of a few says little: more of them.
  const auto trips = std::clamp(8192U / length, 1U, 4U);
  for (int i = 0; i < repetitions; ++i) {
    for (std::uint32_t trip = 0; trip < trips; ++trip) {
      not_too_long();
      go_live(live);
      go_live(home);
    }
    not_too_long();
    go_live(blocking);
    out.blocking.add(migrate_once(*request, home, 0));
  }
  return out;
}

/// Least squares against the number of doublings.
double slope(const std::vector<double>& doublings, const std::vector<double>& values) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    x += doublings[i];
    y += values[i];
    xx += doublings[i] * doublings[i];
    xy += doublings[i] * values[i];
  }
  const double spread = n * xx - x * x;
  return spread == 0 ? 0 : (n * xy - x * y) / spread;
}

figure plain(std::string name, double value, std::string unit, std::optional<double> reference = {}) {
  figure out;
  out.name = std::move(name);
  out.value = value;
  out.unit = std::move(unit);
  out.reference = reference;
  if (reference && *reference != 0) out.ratio = value / *reference;
  return out;
}

struct reporter {
  session& out;
  std::string suffix;
  [[nodiscard]] std::string name(const char* what, std::uint32_t length) const {
    return std::string("migration/") + what + "/" + std::to_string(length) + suffix;
  }

  void report(std::uint32_t length, const length_result& r) const {
    const double step = r.live.median_of([](const sample& s) { return s.step; });
    const double steps = r.live.median_of([](const sample& s) { return s.stall / s.step; });
    const double still = r.live.median_of([](const sample& s) { return s.report.stall_ns * 1e-9; });
    // What cannot be told from an ordinary gap still has the time that the request was in no batch.
    const double stall = std::max(r.live.median_of([](const sample& s) { return s.stall; }), still);
    const double blocking = r.blocking.median_of([](const sample& s) { return s.stall; });
    const double recompute = median(r.recomputes) - step;

    auto main = plain(name("stall_steps", length), steps, "steps",
                      r.live.median_of([](const sample& s) { return s.control / s.step; }));
    main.ratio.reset();
    main.goal = figure::goal_type{figure::direction::at_most, 1.0, steps};
    out.add(main);
    out.add(plain(name("stall", length), stall * 1e3, "ms", step * 1e3));
    out.add(plain(name("handover", length), r.live.median_of([](const sample& s) { return s.handover; }) * 1e3, "ms",
                  step * 1e3));
    out.add(plain(name("still", length), still * 1e3, "ms", step * 1e3));
    out.add(plain(name("blocking_copy", length), blocking * 1e3, "ms", stall * 1e3));
    out.add(plain(name("recompute", length), recompute * 1e3, "ms", stall * 1e3));
    out.add(plain(name("blocking_copy_steps", length), blocking / step, "steps"));
    out.add(plain(name("recompute_steps", length), recompute / step, "steps"));
    const auto of = [](const series& all, auto member) {
      return all.median_of([&](const sample& s) { return static_cast<double>(s.report.*member); });
    };
    using report = protocols::migration_report;
    out.add(plain(name("duration", length), of(r.live, &report::duration_ns) * 1e-6, "ms",
                  of(r.blocking, &report::duration_ns) * 1e-6));
    out.add(plain(name("bytes", length), of(r.live, &report::bytes) * 1e-6, "MB"));
    out.add(plain(name("last_stage_bytes", length), of(r.live, &report::last_bytes) * 1e-6, "MB"));
    out.add(plain(name("stages", length), of(r.live, &report::stages), "stages"));
  }
};

} // namespace

void measure_stalls(session& out, const served_model& model, setup where) {
  const reporter to{out, where == setup::in_process ? "/in_process" : ""};
  const auto slope_name = "migration/stall_slope" + to.suffix;
  std::vector<std::uint32_t> wanted;
  for (const auto length : lengths_for(model))
    if (out.wants(to.name("stall_steps", length)) || out.wants(slope_name)) wanted.push_back(length);
  if (wanted.empty()) return;

  shape how;
  how.context = static_cast<std::uint32_t>(wanted.back() * growth_max) + growth_room(model);
  how.third_instance = true;
  world all(model, how, where);
  std::vector<double> doublings, stalls, added;
  // The longest first: it touches all the memory that the others use. Each is told at once, for where time runs out.
  for (std::size_t i = wanted.size(); i-- > 0;) {
    std::fprintf(stderr, "bench_migration: %s, %u tokens\n", to_string(where), wanted[i]);
    const auto result = measure_length(all, wanted[i], out.repetitions());
    to.report(wanted[i], result);
    const auto& live = result.live;
    doublings.push_back(std::log2(live.median_of([](const sample& s) { return static_cast<double>(s.length); })));
    stalls.push_back(live.median_of([](const sample& s) { return s.stall / s.step; }));
    added.push_back(live.median_of([](const sample& s) { return (s.stall - s.control) / s.step; }));
  }
  if (wanted.size() < 2) return;
  auto line = plain(slope_name, slope(doublings, added), "steps/doubling", slope(doublings, stalls));
  line.ratio.reset();
  line.goal = figure::goal_type{figure::direction::at_most, 0.05, std::abs(line.value)};
  out.add(line);
}

} // namespace godwit::bench
