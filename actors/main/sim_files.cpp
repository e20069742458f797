#include "main/counted.hpp"
#include "main/sim_report.hpp"
#include "main/svg_plot.hpp"
#include "main/units.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace godwit::main {

using actors::sim::simulation_result;

namespace {

/// The share of the values at or below each of them; at most so many points.
svg_plot::line distribution(std::string name, std::vector<double> values) {
  constexpr std::size_t points_max = 500;
  std::sort(values.begin(), values.end());
  svg_plot::line out;
  out.name = std::move(name);
  const auto count = values.size();
  const auto points = std::min(count, points_max);
  for (std::size_t i = 1; i <= points; ++i) {
    const auto rank = i * count / points;
    out.points.emplace_back(values[rank - 1], static_cast<double>(rank) / static_cast<double>(count));
  }
  return out;
}

/// Of many samples the least and the greatest value of each stretch of time: more is not to be seen, and peaks stay.
template <class Value> svg_plot::line over_time(std::string name, const simulation_result& run, Value value) {
  constexpr std::size_t points_max = 2000;
  svg_plot::line out;
  out.name = std::move(name);
  out.steps = true;
  const auto& all = run.samples;
  const auto add = [&](std::size_t i) {
    out.points.emplace_back(seconds(all[i].time_ns), static_cast<double>(value(all[i])));
  };
  if (all.size() <= points_max) {
    for (std::size_t i = 0; i < all.size(); ++i) add(i);
    return out;
  }
  constexpr std::size_t stretches = points_max / 2 - 1; // the first sample and the last one besides
  add(0);
  for (std::size_t s = 0; s < stretches; ++s) {
    auto least = 1 + s * (all.size() - 2) / stretches, most = least;
    const auto end = 1 + (s + 1) * (all.size() - 2) / stretches;
    for (auto i = least; i < end; ++i) {
      if (value(all[i]) < value(all[least])) least = i;
      if (value(all[i]) > value(all[most])) most = i;
    }
    add(std::min(least, most));
    if (least != most) add(std::max(least, most));
  }
  add(all.size() - 1);
  return out;
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

svg_plot latency_plot(const sim_setup& setup, const simulation_result& run) {
  std::vector<double> e2e, prefill, decode;
  for (const auto& r : run.requests) {
    if (!r.answered()) continue;
    e2e.push_back(seconds(r.ended_ns - r.arrival_ns));
    prefill.push_back(seconds(r.first_token_ns - r.arrival_ns));
    if (r.answer_tokens > 1) decode.push_back(seconds(r.last_token_ns - r.first_token_ns) / (r.answer_tokens - 1));
  }
  svg_plot plot;
  plot.title = fmt::format("Latencies: {}, {}, {}, {}", setup.policy, counted(setup.instances, "instance"),
                           setup.workload, setup.arrivals);
  plot.x_label = "seconds";
  plot.y_label = "share of the requests";
  plot.log_x = plot.legend_below = true;
  plot.lines.push_back(distribution("end to end", std::move(e2e)));
  plot.lines.push_back(distribution("prefill (to the first token)", std::move(prefill)));
  plot.lines.push_back(distribution("decode (per token after it)", std::move(decode)));
  return plot;
}

} // namespace

std::string requests_csv(const simulation_result& run, bool with_faults) {
  std::string out = "request,priority,prompt_tokens,answer_tokens,cached_tokens,arrival_s,first_token_s,last_token_s,"
                    "ended_s,answered,preemptions,preemption_loss_s,migrations,stall_s,instance,failed,expected_first_"
                    "token_s,longest_gap_s";
  out += with_faults ? ",dispatched_again,interrupted_s\n" : "\n";
  const auto time = [](std::int64_t ns) { return ns < 0 ? std::string() : fmt::format("{:.9f}", seconds(ns)); };
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    const auto& r = run.requests[i];
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{:.9f},{},{:.9f},{},{},{},{:.9f}", i, r.priority,
                       r.prompt_tokens, r.answer_tokens, r.cached_tokens, time(r.arrival_ns), time(r.first_token_ns),
                       time(r.last_token_ns), time(r.ended_ns), r.answered() ? 1 : 0, r.preemptions,
                       seconds(r.preemption_loss_ns), r.migrations, seconds(r.stall_ns),
                       r.instance ? std::to_string(r.instance->value()) : "", r.failed ? name_of(*r.failed) : "",
                       r.expected_ns > 0 ? time(r.dispatched_ns + r.expected_ns) : "", seconds(r.longest_gap_ns));
    if (with_faults) out += fmt::format(",{},{:.9f}", r.losses, seconds(r.interrupted_ns));
    out += '\n';
  }
  return out;
}

std::string samples_csv(const simulation_result& run) {
  std::string out = "time_s,instances,ready,open,running,waiting,blocks_total,blocks_used,blocks_fragmented,"
                    "heads_waiting,heads_fitting,blocks_headroom,prefill_instances,decode_instances\n";
  for (const auto& s : run.samples)
    out += fmt::format("{:.3f},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", seconds(s.time_ns), s.instances, s.ready,
                       s.open, s.running, s.waiting, s.blocks_total, s.blocks_used, s.fragmented.blocks,
                       s.fragmented.heads, s.fragmented.fitting, s.blocks_headroom, s.prefill, s.decode);
  return out;
}

std::map<std::string, std::string> plots(const sim_setup& setup, const simulation_result& run) {
  std::map<std::string, std::string> out;
  out["latency.svg"] = to_svg(latency_plot(setup, run));
  svg_plot plot;
  plot.x_label = "virtual seconds";

  plot.title = "Requests";
  plot.y_label = "requests";
  plot.lines.push_back(over_time("open", run, [](const auto& s) { return s.open; }));
  plot.lines.push_back(over_time("running", run, [](const auto& s) { return s.running; }));
  plot.lines.push_back(over_time("waiting", run, [](const auto& s) { return s.waiting; }));
  out["requests.svg"] = to_svg(plot);

  plot.title = "KV memory of all instances";
  plot.y_label = "% of the blocks";
  plot.lines.clear();
  plot.lines.push_back(over_time("used", run, [](const auto& s) { return percent(s.blocks_used, s.blocks_total); }));
  plot.lines.push_back(
      over_time("fragmented", run, [](const auto& s) { return percent(s.fragmented.blocks, s.blocks_total); }));
  out["memory.svg"] = to_svg(plot);

  plot.title = "Instances";
  plot.y_label = "instances";
  plot.lines.clear();
  plot.lines.push_back(over_time("paid for", run, [](const auto& s) { return s.instances; }));
  plot.lines.push_back(over_time("take requests", run, [](const auto& s) { return s.ready; }));
  if (std::ranges::any_of(run.samples, [](const auto& s) { return s.prefill + s.decode > 0; })) {
    plot.lines.push_back(over_time("prefill", run, [](const auto& s) { return s.prefill; }));
    plot.lines.push_back(over_time("decode", run, [](const auto& s) { return s.decode; }));
  }
  out["instances.svg"] = to_svg(plot);
  return out;
}

} // namespace godwit::main
