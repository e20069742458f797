#include "main/counted.hpp"
#include "main/sim_report.hpp"
#include "main/units.hpp"

#include <boost/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <map>
#include <utility>

namespace godwit::main {

namespace json = boost::json;

namespace {

json::object object_of(const sim_report::latencies& t) {
  return {{"end_to_end_ms", object_of(t.e2e_ms)},
          {"prefill_ms", object_of(t.prefill_ms)},
          {"decode_ms", object_of(t.decode_ms)},
          {"preemption_loss_ms", object_of(t.loss_ms)},
          {"migration_stall_ms", object_of(t.stall_ms)}};
}

template <class Count> json::object object_of(const std::map<std::string, Count>& counts) {
  json::object out;
  for (const auto& [name, count] : counts) out[name] = count;
  return out;
}

json::value value_of(const std::optional<double>& x) { return x ? json::value(*x) : json::value(nullptr); }

json::object object_of(const sim_setup& s) {
  json::object settings;
  for (const auto& [name, text] : s.settings) settings[name] = text;
  return {{"policy", s.policy},
          {"dispatch", s.dispatch},
          {"migration", s.migration},
          {"scaling", s.scaling},
          {"profile", s.profile},
          {"workload", s.workload},
          {"arrivals", s.arrivals},
          {"instances", s.instances},
          {"context", s.context},
          {"seed", s.seed},
          {"priority", s.priority.empty() ? json::value(nullptr) : json::value(s.priority)},
          {"shortened", s.shortened},
          {"skipped", s.skipped},
          {"missing", s.missing},
          {"slo_ttft_ms", value_of(s.ttft_ms)},
          {"slo_tpot_ms", value_of(s.tpot_ms)},
          {"window_s",
           s.window ? json::value({seconds(s.window->first), seconds(s.window->second)}) : json::value(nullptr)},
          {"settings", std::move(settings)}};
}

std::string row(std::string_view name, const latency_stats& s) {
  if (s.count == 0) return fmt::format("{:<20}{:>11}\n", name, "-");
  return fmt::format("{:<20}{:>11.2f} {:>11.2f} {:>11.2f} {:>11.2f} {:>11.2f}  {:>9}\n", name, s.mean, s.p50, s.p90,
                     s.p99, s.max, s.count);
}

std::string rows(const sim_report::latencies& t) {
  return row("end to end", t.e2e_ms) + row("prefill", t.prefill_ms) + row("decode", t.decode_ms) +
         row("preemption loss", t.loss_ms);
}

template <class Count> std::string list(const std::map<std::string, Count>& counts) {
  std::string out;
  for (const auto& [name, count] : counts) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, name);
  return out;
}

} // namespace

std::string to_table(const sim_setup& setup, const sim_report& r) {
  auto out =
      fmt::format("{} of {}, policy {} (dispatch {}, migration {}, scaling {})\n", counted(setup.instances, "instance"),
                  setup.profile, setup.policy, setup.dispatch, setup.migration, setup.scaling);
  out += fmt::format("{}, {}, seed {}\n", setup.workload, setup.arrivals, setup.seed);
  if (!setup.faults.empty()) out += fmt::format("faults {}\n", setup.faults);
  for (const auto& [name, text] : setup.settings) out += fmt::format("{} = {}\n", name, text);
  if (setup.window)
    out += fmt::format("of requests that arrive from {:.1f} s until {:.1f} s:\n", seconds(setup.window->first),
                       seconds(setup.window->second));
  out += fmt::format("{} of {} requests answered", r.answered, r.requests);
  if (!r.failed.empty()) out += ", failed: " + list(r.failed);
  if (r.unfinished > 0)
    out += fmt::format(", {} unfinished{}", r.unfinished, r.interrupted ? "" : ": the cluster hangs");
  if (r.interrupted) out += fmt::format(", {} not arrived: the run was interrupted", r.not_arrived);
  out += fmt::format(", in {:.1f} virtual s\n\n", r.duration_s);

  out += fmt::format("{:<20}{:>11} {:>11} {:>11} {:>11} {:>11}  {:>9}\n", "latency (ms)", "mean", "P50", "P90", "P99",
                     "max", "samples");
  out += rows(r.times) + row("between tokens", r.token_gap_ms);
  const bool objectives = setup.ttft_ms || setup.tpot_ms || setup.deadlines;
  for (const auto& level : r.levels) {
    out += fmt::format("\npriority {}: {} of {} requests answered\n", level.name, level.answered, level.requests) +
           rows(level.times);
    if (objectives) out += fmt::format("{:<20}{:>11.2f} %\n", "objectives met", 100 * level.attainment);
  }

  out += fmt::format(
      "\n{:<20}{:.3f} requests/s, {:.1f} tokens/s; {} prompt tokens ({:.1f} % cached), {} answer tokens\n",
      "throughput", r.requests_per_s, r.duration_s > 0 ? r.answer_tokens / r.duration_s : 0.0, r.prompt_tokens,
      r.prompt_tokens > 0 ? 100.0 * r.cached_tokens / r.prompt_tokens : 0.0, r.answer_tokens);
  out += fmt::format("{:<20}{}, of {} requests, {:.1f} s lost{}\n", "preemptions", r.preemptions, r.preempted, r.loss_s,
                     r.swaps == 0
                         ? ""
                         : fmt::format("; {} swapped out, {:.0f} % of their tokens came back", r.swaps,
                                       100.0 * static_cast<double>(r.swapped_in_tokens) /
                                           static_cast<double>(std::max<std::uint64_t>(r.swapped_out_tokens, 1))));
  if (const auto& s = r.store) {
    out += fmt::format("{:<20}{} of {} tokens loaded that no prefix cache had; {} chunks filed, {} evicted", "KV store",
                       s->hit_tokens, s->query_tokens, s->shards.filed_total, s->shards.evicted_total);
    if (s->shards.disk_bytes > 0)
      out += fmt::format("; disk: {} written, {} read", s->shards.disk_written_total, s->shards.disk_read_total);
    out += '\n';
  }
  out += fmt::format("{:<20}{} committed", "migrations", r.migrations);
  if (r.moved_waiting > 0) out += fmt::format(" ({} of requests that waited)", r.moved_waiting);
  if (!r.committed.empty()) out += ": " + list(r.committed);
  if (!r.aborted.empty()) out += fmt::format("; not: {}", list(r.aborted));
  if (r.stall_ms.count > 0) out += fmt::format("; stall {:.2f} ms, P99 {:.2f} ms", r.stall_ms.mean, r.stall_ms.p99);
  if (r.known_blocks > 0) out += fmt::format("; {} of {} blocks were there", r.known_blocks, r.moved_blocks);
  if (setup.copies_slow_steps && r.slowed_steps > 0)
    out += fmt::format("\n{:<20}{} that decode while KV leaves or arrives, by {:.2f} %, at most {:.2f} %",
                       "slower steps", r.slowed_steps, 100 * r.slowed_by, 100 * r.slowed_by_max);
  out += fmt::format("\n{:<20}{}, of {:.2f} requests and {:.2f} tokens on average; devices busy {:.1f} % of the time",
                     "steps", r.steps.count, r.steps.requests, r.steps.tokens, 100 * r.steps.busy);
  if (r.layer_moves > 0) {
    std::map<std::vector<std::uint32_t>, std::size_t> divisions; // and how many instances have each
    for (const auto& [instance, layers] : r.layers) ++divisions[layers];
    out += fmt::format("\n{:<20}moved {}; by stage", "layers",
                       r.layer_moves == 1 ? "once" : std::to_string(r.layer_moves) + " times");
    for (auto before = ""; const auto& [layers, instances] : divisions)
      out += fmt::format("{} {} ({})", std::exchange(before, ";"), fmt::join(layers, ", "),
                         counted(instances, "instance"));
  }
  if (const auto& stall = r.central_stall_ms)
    out += fmt::format("\n{:<20}lets a step wait for {:.3f} ms, at most {:.3f} ms", "central scheduler", stall->first,
                       stall->second);
  out += fmt::format("\n{:<20}", "memory");
  if (const auto& m = r.memory)
    out += fmt::format("{:.1f} % used, {:.2f} % fragmented (at most {:.2f} %, {:.1f} % of the time)\n", 100 * m->used,
                       100 * m->fragmented, 100 * m->fragmented_max, 100 * m->fragmented_time);
  else
    out += fmt::format("- (the run has fewer than {} samples)\n", memory_samples_min);
  out += fmt::format("{:<20}{:.2f} on average, at most {}; {:.0f} instance-seconds{}\n", "instances", r.instances,
                     r.instances_max, r.instance_s,
                     r.orders_given_up > 0 ? fmt::format("; {} orders given up", r.orders_given_up) : "");
  if (const auto& roles = r.roles) {
    out += fmt::format("{:<20}{:.2f} prefill ({} to {}), {:.2f} decode on average", "roles", roles->prefill,
                       roles->prefill_least, roles->prefill_most, roles->decode);
    if (!roles->changes.empty()) out += "; changed: " + list(roles->changes);
    out += '\n';
  }
  if (const auto& l = r.lengths)
    out +=
        fmt::format("{:<20}of {} answers {:.1f} % of the expected class, {:.1f} % one off; wrong by {:.1f} % in all\n",
                    "lengths", l->answers, 100 * l->exact, 100 * l->near, 100 * l->wrong_by);
  if (r.over_expected.count > 0)
    out += fmt::format("{:<20}{:.2f} of what was expected at the median, P99 {:.2f}; wrong by {:.1f} % in all\n",
                       "first tokens", r.over_expected.p50, r.over_expected.p99, 100 * r.expected_wrong_by);
  if (objectives)
    out += fmt::format("{:<20}{:.2f} % of the requests, goodput {:.3f} requests/s\n", "objectives met",
                       100 * r.attainment, r.goodput);
  if (r.faults) out += to_table(*r.faults);
  if (setup.shortened > 0)
    out += fmt::format("\nnote: shortened to the context of {} tokens: {}\n", setup.context,
                       counted(setup.shortened, "request"));
  if (setup.skipped > 0)
    out +=
        fmt::format("\nnote: left out, since they name no tokens: {} of the trace\n", counted(setup.skipped, "line"));
  if (setup.missing > 0)
    out += fmt::format("\nnote: the trace has {} requests fewer than were asked for\n", setup.missing);
  return out;
}

std::string to_json(const sim_setup& setup, const sim_report& r) {
  json::array levels;
  for (const auto& level : r.levels) {
    auto one = object_of(level.times);
    one["priority"] = level.name;
    one["requests"] = level.requests;
    one["answered"] = level.answered;
    one["slo_attainment"] = level.attainment;
    levels.push_back(std::move(one));
  }
  auto out = json::object{{"setup", object_of(setup)},
                          {"requests", r.requests},
                          {"answered", r.answered},
                          {"failed", object_of(r.failed)},
                          {"unfinished", r.unfinished},
                          {"virtual_s", r.duration_s},
                          {"events", r.events},
                          {"requests_per_s", r.requests_per_s},
                          {"prompt_tokens", r.prompt_tokens},
                          {"cached_tokens", r.cached_tokens},
                          {"answer_tokens", r.answer_tokens}};
  for (auto& [name, value] : object_of(r.times)) out[name] = value;
  out["token_gap_ms"] = object_of(r.token_gap_ms);
  out["levels"] = std::move(levels);
  out["preemptions"] = json::object{{"count", r.preemptions}, {"requests", r.preempted}, {"loss_s", r.loss_s}};
  if (r.swaps > 0) {
    auto& part = out["preemptions"].as_object();
    part["swapped"] = r.swaps;
    part["swapped_out_tokens"] = r.swapped_out_tokens;
    part["swapped_in_tokens"] = r.swapped_in_tokens;
  }
  if (const auto& s = r.store) {
    auto& part = (out["kv_store"] = json::object{{"query_tokens", s->query_tokens},
                                                 {"hit_tokens", s->hit_tokens},
                                                 {"bytes", s->shards.bytes},
                                                 {"used_bytes", s->shards.bytes_used},
                                                 {"filed_chunks", s->shards.filed_total},
                                                 {"loaded_chunks", s->shards.loaded_total},
                                                 {"evicted_chunks", s->shards.evicted_total},
                                                 {"failed_transfers", s->shards.failed_total}})
                     .as_object();
    if (s->shards.disk_bytes > 0)
      part["disk"] = json::object{{"bytes", s->shards.disk_bytes},
                                  {"used_bytes", s->shards.disk_bytes_used},
                                  {"written_chunks", s->shards.disk_written_total},
                                  {"read_chunks", s->shards.disk_read_total},
                                  {"evicted_chunks", s->shards.disk_evicted_total},
                                  {"failures", s->shards.disk_failed_total}};
  }
  json::object stages;
  for (const auto& [count, migrations] : r.stages) stages[std::to_string(count)] = migrations;
  out["migrations"] = json::object{
      {"committed", r.migrations},     {"by_cause", object_of(r.committed)}, {"not_committed", object_of(r.aborted)},
      {"waiting", r.moved_waiting},    {"by_stages", std::move(stages)},     {"stall_ms", object_of(r.stall_ms)},
      {"gap_ms", object_of(r.gap_ms)}, {"time_share", r.migrating_share},    {"kv_blocks", r.moved_blocks},
      {"known_blocks", r.known_blocks}};
  if (setup.copies_slow_steps)
    out["migrations"].as_object()["slowed_steps"] =
        json::object{{"count", r.slowed_steps}, {"mean", r.slowed_by}, {"max", r.slowed_by_max}};
  out["steps"] = json::object{{"count", r.steps.count},
                              {"requests_mean", r.steps.requests},
                              {"tokens_mean", r.steps.tokens},
                              {"busy_share", r.steps.busy}};
  if (r.layer_moves > 0) {
    json::object by_stage;
    for (const auto& [id, layers] : r.layers) by_stage[std::to_string(id)] = json::array(layers.begin(), layers.end());
    out["layers"] = json::object{{"moves", r.layer_moves}, {"by_stage", std::move(by_stage)}};
  }
  if (const auto& stall = r.central_stall_ms)
    out["central_scheduler"] = json::object{{"stall_ms_mean", stall->first}, {"stall_ms_max", stall->second}};
  const auto m = r.memory.value_or(sim_report::memory_shares{});
  const auto known = [&r](double share) { return r.memory ? json::value(share) : json::value(nullptr); };
  out["memory"] = json::object{{"used_share", known(m.used)},
                               {"fragmented_share", known(m.fragmented)},
                               {"fragmented_share_max", known(m.fragmented_max)},
                               {"fragmented_time", known(m.fragmented_time)}};
  out["instances"] = json::object{{"mean", r.instances},
                                  {"max", r.instances_max},
                                  {"instance_seconds", r.instance_s},
                                  {"orders_given_up", r.orders_given_up}};
  if (const auto& roles = r.roles)
    out["roles"] = json::object{{"prefill_mean", roles->prefill},
                                {"prefill_least", roles->prefill_least},
                                {"prefill_most", roles->prefill_most},
                                {"decode_mean", roles->decode},
                                {"changes", object_of(roles->changes)}};
  if (const auto& l = r.lengths)
    out["expected_lengths"] = json::object{{"answers", l->answers},
                                           {"class_exact_share", l->exact},
                                           {"class_off_by_one_share", l->near},
                                           {"wrong_by_share", l->wrong_by}};
  if (r.over_expected.count > 0)
    out["expected_ttft"] = json::object{{"requests", r.over_expected.count},
                                        {"measured_over_expected", object_of(r.over_expected)},
                                        {"wrong_by_share", r.expected_wrong_by}};
  out["slo_attainment"] = r.attainment;
  out["goodput_requests_per_s"] = r.goodput;
  if (r.interrupted) {
    out["interrupted"] = true;
    out["not_arrived"] = r.not_arrived;
  }
  if (r.faults) {
    out["setup"].as_object()["faults"] = setup.faults;
    out["faults"] = to_object(*r.faults);
  }
  return json::serialize(out);
}

} // namespace godwit::main
