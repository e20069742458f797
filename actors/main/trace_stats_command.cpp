#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iostream>
#include <memory>

namespace godwit::main {

namespace json = boost::json;
namespace trace = runtime::trace;
namespace analysis = runtime::trace::analysis;

using analysis::duration_text;
using analysis::label;

namespace {

struct stats_options {
  std::vector<std::string> files;
  selection_flags wanted;
  std::size_t limit = 30;
  bool json = false;
};

std::string mean_text(const analysis::summary& s) { return duration_text(static_cast<std::int64_t>(s.mean)); }

std::string times_of(const analysis::summary& s) {
  if (s.count == 0) return fmt::format("{:>10} {:>10} {:>10} {:>10}", "-", "-", "-", "-");
  return fmt::format("{:>10} {:>10} {:>10} {:>10}", mean_text(s), duration_text(s.p50), duration_text(s.p99),
                     duration_text(s.max));
}

std::string left_out(std::size_t all, std::size_t shown) {
  return all > shown ? fmt::format("and {} more; --limit {} shows them\n", all - shown, all) : std::string();
}

std::string types_text(const std::vector<analysis::type_stats>& types, std::size_t limit) {
  auto out = fmt::format("{:<42}  {:^43}  {:>25}\n", "", "queued", "handled");
  out += fmt::format("{:<32} {:>9}  {:>10} {:>10} {:>10} {:>10}  {:>10} {:>10} {:>10} {:>10} {:>11}\n", "type", "count",
                     "mean", "P50", "P99", "max", "mean", "P50", "P99", "max", "bytes");
  const auto shown = std::min(limit, types.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& t = types[i];
    const auto span = t.kind == trace::event_kind::span;
    out += fmt::format("{:<32} {:>9}  {}  {} {:>11}", analysis::short_type(t.name) + (span ? " (span)" : ""),
                       t.handling_ns.count, times_of(t.queue_ns), times_of(t.handling_ns),
                       span ? "-" : std::to_string(t.bytes));
    if (t.failures > 0) out += fmt::format("  {} failed", t.failures);
    out += '\n';
  }
  return out + left_out(types.size(), shown);
}

std::string actors_text(const analysis::index& of, const std::vector<analysis::actor_stats>& actors,
                        std::size_t limit) {
  auto out = fmt::format("{:<32} {:>9} {:>7}  {:>10} {:>10}  {:>10} {:>10}  {:>6} {:>6} {:>6}\n", "actor", "messages",
                         "busy", "queued P50", "P99", "handled P50", "P99", "depth", "P99", "max");
  const auto shown = std::min(limit, actors.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& a = actors[i];
    out += fmt::format("{:<32} {:>9} {:>6.2f}%  {:>10} {:>10}  {:>11} {:>10}  {:>6} {:>6} {:>6}\n",
                       label(of.source(), a.who), a.messages, 100 * a.busy(), duration_text(a.queue_ns.p50),
                       duration_text(a.queue_ns.p99), duration_text(a.handling_ns.p50),
                       duration_text(a.handling_ns.p99), a.depth.p50, a.depth.p99, a.depth.max);
  }
  return out + left_out(actors.size(), shown);
}

json::object to_json(const analysis::index& of, const analysis::recording_stats& all) {
  json::array types;
  for (const auto& t : all.types)
    types.push_back(json::object{{"name", t.name},
                                 {"kind", to_string(t.kind)},
                                 {"queue_ns", summary_json(t.queue_ns)},
                                 {"handling_ns", summary_json(t.handling_ns)},
                                 {"bytes", t.bytes},
                                 {"failures", t.failures}});
  json::array actors;
  for (const auto& a : all.actors)
    actors.push_back(json::object{{"actor", label(of.source(), a.who)},
                                  {"messages", a.messages},
                                  {"lived_ns", a.lived_ns},
                                  {"busy_ns", a.busy_ns},
                                  {"busy_share", a.busy()},
                                  {"queue_ns", summary_json(a.queue_ns)},
                                  {"handling_ns", summary_json(a.handling_ns)},
                                  {"mailbox_depth", summary_json(a.depth)}});
  return {{"types", std::move(types)}, {"actors", std::move(actors)}};
}

int count(const stats_options& options) {
  const auto recording = read_recordings(options.files);
  if (!recording) return 1;
  const analysis::index of(*recording);
  const auto wanted = options.wanted.resolve(of);
  if (!wanted) return 1;
  const auto all = analysis::stats(of, analysis::select(of, *wanted));
  if (options.json)
    std::cout << json_text(to_json(of, all)) << '\n';
  else
    std::cout << types_text(all.types, options.limit) << '\n' << actors_text(of, all.actors, options.limit);
  std::cout << std::flush;
  return 0;
}

} // namespace

void add_trace_stats_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<stats_options>();
  auto* command =
      trace.add_subcommand("stats", "Messages by type and actors: counts, times, how busy, how long queues");
  add_recordings(*command, o->files);
  o->wanted.add_to(*command);
  command->add_option("--limit", o->limit, "At most so many types and actors, those that took most time")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON object, with all of them");
  command->callback([o, &result] { result.run = [o] { return count(*o); }; });
}

} // namespace godwit::main
