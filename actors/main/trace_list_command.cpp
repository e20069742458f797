#include "main/counted.hpp"
#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/check.hpp>
#include <godwit/runtime/trace/analysis/labels.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>

namespace godwit::main {

namespace json = boost::json;
namespace trace = runtime::trace;
namespace analysis = runtime::trace::analysis;

using analysis::harmless;
using analysis::label;

namespace {

struct list_options {
  std::vector<std::string> files;
  std::size_t limit = 20;
  bool json = false;
};

/// Everything that `list` says, counted once.
struct overview {
  std::array<std::size_t, trace::event_kinds> kinds{};
  std::vector<std::size_t> by_process;
  std::map<trace::actor_id, std::size_t> actors; ///< messages handled
  std::vector<analysis::model_request> requests;
  analysis::causality causes;
  std::uint64_t lost = 0;

  explicit overview(const analysis::index& of) : by_process(of.source().processes.size()) {
    for (const auto& [who, name] : of.source().actors) actors[who] = 0;
    for (analysis::position p = 0; p < of.size(); ++p) {
      const auto& e = of[p];
      ++kinds[static_cast<std::size_t>(e.kind)];
      ++by_process[e.id.process];
      if (e.kind == trace::event_kind::delivery) ++actors[e.receiver];
      if (e.kind == trace::event_kind::gap) lost += e.count;
    }
    requests = analysis::model_requests(of);
    // Clocks of processes are brought together by messages, to about the time that one takes.
    causes = analysis::check_causality(of, 1'000'000);
  }
};

std::string causes_text(const analysis::causality& c) {
  if (c.fault_count > 0)
    return fmt::format("{} events cannot be right; the first: {}", c.fault_count, c.faults.front());
  auto out = std::string("every cause is there, or lies before the recording's beginning");
  if (c.missing > 0) out = fmt::format("{} are missing, filtered out or lost", c.missing);
  return out;
}

/// By the first process's wall clock; empty for a simulation.
std::string began(const analysis::index& of) {
  const auto& processes = of.source().processes;
  if (processes.empty() || processes.front().started_unix_ns == 0) return {};
  return moment_text(processes.front().started_unix_ns + of.first_ns());
}

std::string processes_text(const analysis::index& of, const overview& o) {
  std::string out;
  const auto& r = of.source();
  std::size_t silent = 0; // each command that asks the head is a process, which records nothing
  for (std::size_t i = 0; i < r.processes.size(); ++i) {
    const auto& p = r.processes[i];
    if (p.name.empty() && p.facts.empty() && o.by_process[i] == 0) {
      ++silent;
      continue;
    }
    out +=
        fmt::format("process {} {}: {} events", i, p.name.empty() ? "(nameless)" : harmless(p.name), o.by_process[i]);
    for (const auto& fact : p.facts)
      if (fact.name.find(':') == std::string::npos) // arguments and settings, which replay wants: with --json
        out += fmt::format(", {} {}", harmless(fact.name), analysis::shortened(harmless(fact.value), 60));
    out += '\n';
  }
  if (silent > 0)
    out += fmt::format("{} more {} that recorded nothing\n", silent, silent == 1 ? "process" : "processes");
  return out;
}

std::string actors_text(const analysis::index& of, const overview& o, std::size_t limit) {
  std::vector<std::pair<std::size_t, std::string>> lines;
  for (const auto& [who, messages] : o.actors)
    lines.emplace_back(messages, fmt::format("  {:<32} {:>10} messages\n", label(of.source(), who), messages));
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  auto out = fmt::format("\n{} actors\n", lines.size());
  for (std::size_t i = 0; i < std::min(limit, lines.size()); ++i) out += lines[i].second;
  if (lines.size() > limit)
    out += fmt::format("  and {} more; --limit {} shows them\n", lines.size() - limit, lines.size());
  return out;
}

std::string requests_text(const analysis::index& of, const overview& o, std::size_t limit) {
  auto out = "\n" + counted(o.requests.size(), "model request") + "\n";
  if (o.requests.empty()) return out;
  out += fmt::format("  {:>20} {:<28} {:>15} {:>12} {:>8}  {}\n", "request", "client's id", "begin", "duration",
                     "events", "outcome");
  for (std::size_t i = 0; i < std::min(limit, o.requests.size()); ++i) {
    const auto& r = o.requests[i];
    out += fmt::format("  {:>20} {:<28} {:>15} {:>12} {:>8}  {}\n", r.id, harmless(r.client_id),
                       offset_text(of, r.begin_ns), analysis::duration_text(r.duration_ns()), r.events,
                       harmless(r.outcome));
  }
  if (o.requests.size() > limit)
    out += fmt::format("  and {} more; --limit {} shows them\n", o.requests.size() - limit, o.requests.size());
  return out;
}

std::string to_text(const analysis::index& of, const overview& o, std::size_t limit) {
  auto out = fmt::format("{} events in {}", of.size(), analysis::duration_text(of.last_ns() - of.first_ns()));
  for (std::size_t k = 0; k < o.kinds.size(); ++k)
    if (o.kinds[k] > 0) out += fmt::format(", {} {}", o.kinds[k], to_string(static_cast<trace::event_kind>(k)));
  if (const auto when = began(of); !when.empty()) out += ", from " + when;
  out += '\n' + processes_text(of, o) + "causes: " + causes_text(o.causes) + '\n';
  if (o.lost > 0) out += fmt::format("lost: {} events, where gaps are\n", o.lost);
  for (const auto& remark : of.source().remarks) out += "remark: " + harmless(remark) + '\n';
  return out + actors_text(of, o, limit) + requests_text(of, o, limit);
}

json::object to_json(const analysis::index& of, const overview& o) {
  const auto& r = of.source();
  json::array processes;
  for (std::size_t i = 0; i < r.processes.size(); ++i) {
    json::object facts;
    for (const auto& fact : r.processes[i].facts) facts[fact.name] = fact.value;
    processes.push_back({{"name", r.processes[i].name},
                         {"started_unix_ns", r.processes[i].started_unix_ns},
                         {"offset_ns", r.processes[i].offset_ns},
                         {"events", o.by_process[i]},
                         {"facts", std::move(facts)}});
  }
  json::object kinds;
  for (std::size_t k = 0; k < o.kinds.size(); ++k) kinds[to_string(static_cast<trace::event_kind>(k))] = o.kinds[k];
  json::array actors;
  for (const auto& [who, messages] : o.actors) actors.push_back({{"actor", label(r, who)}, {"messages", messages}});
  json::array requests;
  for (const auto& one : o.requests) requests.push_back(request_json(of, one));
  return {{"duration_ns", of.last_ns() - of.first_ns()},
          {"events", std::move(kinds)},
          {"lost", o.lost},
          {"processes", std::move(processes)},
          {"actors", std::move(actors)},
          {"requests", std::move(requests)},
          {"causes", {{"wrong", o.causes.fault_count}, {"missing", o.causes.missing}, {"before", o.causes.before}}},
          {"remarks", json::array(r.remarks.begin(), r.remarks.end())}};
}

int list(const list_options& options) {
  const auto recording = read_recordings(options.files);
  if (!recording) return 1;
  const analysis::index of(*recording);
  const overview o(of);
  std::cout << (options.json ? json_text(to_json(of, o)) + "\n" : to_text(of, o, options.limit)) << std::flush;
  return 0;
}

} // namespace

void add_trace_list_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<list_options>();
  auto* command = trace.add_subcommand("list", "What is in a recording: processes, actors, model requests, gaps");
  add_recordings(*command, o->files);
  command->add_option("--limit", o->limit, "At most so many actors and requests")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON object, with all of them");
  command->callback([o, &result] { result.run = [o] { return list(*o); }; });
}

} // namespace godwit::main
