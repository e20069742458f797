#include "main/sim_report.hpp"
#include "main/units.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace godwit::main {

using actors::sim::request_record;
using actors::sim::simulation_result;

namespace {

/// After the first one, of a request that has more.
double per_token_ms(const request_record& r) { return ms(r.last_token_ns - r.first_token_ns) / (r.answer_tokens - 1); }

struct times_of_all {
  std::vector<double> e2e, prefill, decode, loss, stall;
  std::size_t met = 0;

  void add(const sim_setup& setup, const request_record& r) {
    if (!r.answered()) return;
    e2e.push_back(ms(r.ended_ns - r.arrival_ns));
    prefill.push_back(ms(r.first_token_ns - r.arrival_ns));
    loss.push_back(ms(r.preemption_loss_ns));
    stall.push_back(ms(r.stall_ns));
    if (r.answer_tokens > 1) decode.push_back(per_token_ms(r));
    met += meets_objectives(setup, r) ? 1 : 0;
  }
  [[nodiscard]] sim_report::latencies take() {
    return {summarise(std::move(e2e)), summarise(std::move(prefill)), summarise(std::move(decode)),
            summarise(std::move(loss)), summarise(std::move(stall))};
  }
};

double share(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

// A sample holds until the next one.
std::optional<sim_report::memory_shares> memory_of(const simulation_result& run) {
  if (run.samples.size() <= memory_samples_min) return std::nullopt; // the last one is the end
  sim_report::memory_shares out;
  double time = 0, used = 0, fragmented = 0, some = 0;
  for (std::size_t i = 0; i + 1 < run.samples.size(); ++i) {
    const auto& s = run.samples[i];
    const auto lasts = seconds(run.samples[i + 1].time_ns - s.time_ns);
    const auto memory = static_cast<double>(s.blocks_total);
    if (s.blocks_total == 0) continue; // nobody was there who had any
    const auto of_no_use = share(static_cast<double>(s.fragmented.blocks), memory);
    time += lasts;
    used += lasts * share(static_cast<double>(s.blocks_used), memory);
    fragmented += lasts * of_no_use;
    some += s.fragmented.blocks > 0 ? lasts : 0.0;
    out.fragmented_max = std::max(out.fragmented_max, of_no_use);
  }
  out.used = share(used, time);
  out.fragmented = share(fragmented, time);
  out.fragmented_time = share(some, time);
  return out;
}

std::optional<sim_report::role_counts> roles_of(const simulation_result& run) {
  sim_report::role_counts out;
  double time = 0;
  for (std::size_t i = 0; i + 1 < run.samples.size(); ++i) {
    const auto& s = run.samples[i];
    const auto lasts = seconds(run.samples[i + 1].time_ns - s.time_ns);
    time += lasts;
    out.prefill += lasts * s.prefill;
    out.decode += lasts * s.decode;
    out.prefill_least = i == 0 ? s.prefill : std::min(out.prefill_least, s.prefill);
    out.prefill_most = std::max(out.prefill_most, s.prefill);
  }
  if (out.prefill + out.decode == 0) return std::nullopt;
  out.prefill = share(out.prefill, time);
  out.decode = share(out.decode, time);
  out.changes = run.role_changes;
  return out;
}

sim_report::length_figures lengths_of(const simulation_result& run) {
  sim_report::length_figures out;
  double exact = 0, near = 0, tokens = 0, wrong_by = 0;
  for (const auto& r : run.requests) {
    if (!r.answered() || r.forecast.tokens == 0) continue;
    ++out.answers;
    const auto off =
        std::abs(static_cast<int>(protocols::length_class(r.answer_tokens)) - static_cast<int>(r.forecast.most_likely));
    exact += off == 0 ? 1 : 0;
    near += off == 1 ? 1 : 0;
    tokens += r.answer_tokens;
    wrong_by += std::abs(static_cast<double>(r.answer_tokens) - r.forecast.tokens);
  }
  const auto count = static_cast<double>(out.answers);
  out.exact = share(exact, count);
  out.near = share(near, count);
  out.wrong_by = share(wrong_by, tokens);
  return out;
}

/// Of the whole histogram; in ms.
latency_stats summary_of(const actors::sim::gap_counts& gaps) {
  const auto at = [&](double share) { return gaps.quantile_ns(share) * 1e-6; };
  return {static_cast<std::size_t>(gaps.count()),    gaps.mean_ns() * 1e-6, at(0.5), at(0.9), at(0.99),
          static_cast<double>(gaps.most_ns()) * 1e-6};
}

/// What of a run is within a window: the requests that arrive in it, and the cluster meanwhile. Migrations, steps and
/// events are those of the whole run.
simulation_result part_of(const simulation_result& run, std::int64_t from, std::int64_t to) {
  auto out = run;
  to = std::min(to, run.duration_ns);
  from = std::min(from, to);
  std::erase_if(out.requests, [&](const request_record& r) {
    return r.arrival_ns < from || r.arrival_ns >= to; // also those that had not arrived when it was interrupted
  });
  out.duration_ns = to - from;
  out.samples.clear();
  out.instance_seconds = 0;
  out.instances_max = 0;
  for (std::size_t i = 0; i + 1 < run.samples.size(); ++i) { // each holds until the next one
    auto sample = run.samples[i];
    const auto until = std::min(run.samples[i + 1].time_ns, to);
    sample.time_ns = std::max(sample.time_ns, from);
    if (sample.time_ns >= until) continue;
    out.instance_seconds += seconds(until - sample.time_ns) * sample.instances;
    out.instances_max = std::max(out.instances_max, sample.instances);
    out.samples.push_back(sample);
  }
  if (!out.samples.empty()) {
    out.samples.push_back(out.samples.back());
    out.samples.back().time_ns = to;
  }
  return out;
}

sim_report::step_figures steps_of(const sim_setup& setup, const simulation_result& run) {
  const auto& all = run.steps;
  const auto count = static_cast<double>(all.steps);
  return {all.steps, share(static_cast<double>(all.requests), count), share(static_cast<double>(all.tokens), count),
          share(seconds(all.busy.count()), run.instance_seconds * setup.stages)};
}

sim_report report_of(const sim_setup& setup, const simulation_result& run);

} // namespace

sim_report make_report(const sim_setup& setup, const simulation_result& run) {
  if (!setup.window) return report_of(setup, run);
  auto out = report_of(setup, part_of(run, setup.window->first, setup.window->second));
  // What has no time of its own is of the whole run.
  out.migrating_share = share(run.migrating_seconds, run.instance_seconds);
  out.steps = steps_of(setup, run);
  if (!setup.faults.empty()) out.faults = make_fault_report(run);
  return out;
}

bool meets_objectives(const sim_setup& setup, const request_record& r) {
  if (!r.answered()) return false;
  if (r.deadline_ns > 0 && r.ended_ns - r.arrival_ns > r.deadline_ns) return false;
  if (setup.ttft_ms && ms(r.first_token_ns - r.arrival_ns) > *setup.ttft_ms) return false;
  return !setup.tpot_ms || r.answer_tokens < 2 || per_token_ms(r) <= *setup.tpot_ms;
}

std::string name_of(actors::failure_kind kind) {
  switch (kind) {
  case actors::failure_kind::overloaded:
    return "overloaded";
  case actors::failure_kind::unavailable:
    return "unavailable";
  case actors::failure_kind::too_long:
    return "too_long";
  case actors::failure_kind::invalid:
    return "invalid";
  case actors::failure_kind::timed_out:
    return "timed_out";
  case actors::failure_kind::rejected:
    return "rejected";
  case actors::failure_kind::internal:
    break;
  }
  return "internal";
}

namespace {

sim_report report_of(const sim_setup& setup, const simulation_result& run) {
  sim_report out;
  times_of_all all;
  std::array<times_of_all, 2> by_level;
  if (!setup.priority.empty()) {
    out.levels.resize(2);
    out.levels[0].name = setup.first_level;
    out.levels[1].name = setup.priority;
  }
  out.requests = run.requests.size();
  out.interrupted = run.interrupted_at_ns.has_value();
  std::array<double, 2> counts{}; // by level; where the run was interrupted, of those that had arrived
  for (const auto& r : run.requests) {
    const auto level = static_cast<std::size_t>(r.priority > 0 ? 1 : 0);
    all.add(setup, r);
    by_level[level].add(setup, r);
    counts[level] += !out.interrupted || r.arrival_ns >= 0 ? 1 : 0;
    if (!out.levels.empty()) {
      ++out.levels[level].requests;
      out.levels[level].answered += r.answered() ? 1 : 0;
    }
    out.preemptions += r.preemptions;
    out.preempted += r.preemptions > 0 ? 1 : 0;
    out.swaps += r.swaps;
    out.loss_s += seconds(r.preemption_loss_ns);
    out.answer_tokens += r.answer_tokens;
    if (r.failed)
      ++out.failed[name_of(*r.failed)];
    else if (r.arrival_ns < 0)
      ++out.not_arrived;
    else if (r.ended_ns < 0)
      ++out.unfinished;
    if (!r.answered()) continue;
    ++out.answered;
    out.prompt_tokens += r.prompt_tokens;
    out.cached_tokens += r.cached_tokens;
  }
  std::vector<double> over_expected;
  double took = 0, wrong_by = 0;
  for (const auto& r : run.requests) {
    if (r.expected_ns <= 0 || r.first_token_ns < 0) continue;
    const auto measured = static_cast<double>(r.first_token_ns - r.dispatched_ns);
    const auto expected = static_cast<double>(r.expected_ns);
    over_expected.push_back(measured / expected);
    took += measured;
    wrong_by += std::abs(measured - expected);
  }
  out.over_expected = summarise(std::move(over_expected));
  out.expected_wrong_by = share(wrong_by, took);
  out.duration_s = seconds(run.duration_ns);
  out.requests_per_s = share(static_cast<double>(out.answered), out.duration_s);
  out.attainment = share(static_cast<double>(all.met), counts[0] + counts[1]);
  out.goodput = share(static_cast<double>(all.met), out.duration_s);
  out.times = all.take();
  out.token_gap_ms = summary_of(run.token_gaps);
  for (std::size_t i = 0; i < out.levels.size(); ++i) {
    auto& level = out.levels[i];
    level.attainment = share(static_cast<double>(by_level[i].met), counts[i]);
    level.times = by_level[i].take();
  }
  out.committed = run.migrations_committed;
  out.aborted = run.migrations_aborted;
  std::vector<double> stalls, gaps;
  for (const auto stall : run.stalls_ns) stalls.push_back(ms(stall));
  for (const auto gap : run.gaps_ns) gaps.push_back(ms(gap));
  out.moved_waiting = run.moved_waiting;
  out.moved_blocks = run.moved_blocks;
  out.known_blocks = run.known_blocks;
  out.migrations = run.moved_waiting + stalls.size();
  out.stages = run.stages;
  out.stall_ms = summarise(std::move(stalls));
  out.gap_ms = summarise(std::move(gaps));
  out.migrating_share = share(run.migrating_seconds, run.instance_seconds);
  out.slowed_steps = run.slowed.count;
  out.slowed_by = share(ms(run.slowed.more.count()), ms(run.slowed.alone.count()));
  out.slowed_by_max = run.slowed.most;
  out.steps = steps_of(setup, run);
  out.layer_moves = run.layers.moves;
  if (out.layer_moves > 0)
    for (const auto& [id, layers] : run.layers.by_stage) out.layers[id.value()] = layers;
  if (const auto& central = run.central)
    out.central_stall_ms = {share(ms(central->stalls().count()), static_cast<double>(central->steps())),
                            ms(central->longest_stall().count())};
  out.memory = memory_of(run);
  out.roles = roles_of(run);
  if (setup.expects_lengths) out.lengths = lengths_of(run);
  out.swapped_out_tokens = run.swapped_out_tokens;
  out.swapped_in_tokens = run.swapped_in_tokens;
  if (run.store.bytes > 0 || run.store.filed_total > 0)
    out.store = {run.store_query_tokens, run.store_hit_tokens, run.store};
  out.instance_s = run.instance_seconds;
  out.instances = share(run.instance_seconds, out.duration_s);
  out.instances_max = run.instances_max;
  out.orders_given_up = run.orders_given_up;
  out.events = run.events;
  if (!setup.faults.empty()) out.faults = make_fault_report(run);
  return out;
}

} // namespace

} // namespace godwit::main
