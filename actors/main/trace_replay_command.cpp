#include "main/policy_plugins.hpp"
#include "main/replay_node.hpp"
#include "main/replay_simulation.hpp"
#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/index.hpp>
#include <godwit/runtime/trace/analysis/labels.hpp>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

namespace godwit::main {

namespace json = boost::json;
namespace trace = runtime::trace;
namespace analysis = runtime::trace::analysis;

using analysis::harmless;

namespace {

struct replay_options {
  std::string file;
  std::string until;
  std::string break_at;
  std::string policy_plugin;
  bool json = false;
};

/// Whether somebody steps through this process.
bool debugged() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("TracerPid:")) return line.find_first_not_of(" \t", 10) != line.find("0", 10);
  return false;
}

/// Line by line, harmless to a terminal.
std::string lines(const std::string& text) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out += (out.empty() ? "" : "\n") + harmless(line);
  return out;
}

std::string to_text(const runtime::sim::replay_result& r, const std::string& at) {
  auto out = fmt::format("{} messages handled again, {} decisions and states noted again\n", r.handled, r.notes);
  if (!r.difference.empty()) {
    out += fmt::format("FIRST DIFFERENCE at {}: {}\n  recorded: {}\n  replayed: {}\n", at, r.difference,
                       lines(r.recorded), lines(r.replayed));
  } else if (r.complete) {
    out += "identical: everything came again as it was recorded\n";
  } else {
    out += fmt::format("stopped after {}; identical so far\n", at);
  }
  return out;
}

json::object to_json(const runtime::sim::replay_result& r, const std::string& at) {
  return {{"handled", r.handled},
          {"notes", r.notes},
          {"complete", r.complete},
          {"identical", r.difference.empty()},
          {"at", at},
          {"difference", r.difference},
          {"recorded", r.recorded},
          {"replayed", r.replayed}};
}

int replay(const replay_options& options) {
  auto recording = read_recordings({options.file});
  if (!recording) return 1;
  if (recording->processes.empty()) return std::cerr << "godwit: the recording is empty\n", 1;
  if (recording->fact(0, "command") == "explore")
    return std::cerr << "godwit: this is of ./run explore: run --scenario " << harmless(recording->fact(0, "scenario"))
                     << " --seed " << harmless(recording->fact(0, "seed"))
                     << " again with --trace, and compare with godwit trace diff\n",
           1;
  for (const auto& remark : recording->remarks) std::cerr << "godwit: " << harmless(remark) << '\n';
  runtime::sim::replay_limits limits;
  if (!options.until.empty()) {
    const auto id = analysis::parse_event_id(*recording, options.until);
    const bool notes = recording->fact(0, "command") == "sim"; // what a replay can stop at
    const auto is_it = [&id, notes](const trace::event& e) {
      using enum trace::event_kind;
      return e.id == *id && (e.kind == delivery || e.kind == spawned || (notes && e.kind == note));
    };
    if (!id || std::ranges::none_of(recording->events, is_it))
      return std::cerr << "godwit: --until: no such message: " << harmless(options.until) << '\n', 2;
    limits.until = *id;
  }
  trace::recording names; // what `label` looks at
  names.processes = recording->processes;
  if (!options.break_at.empty()) {
    if (!options.break_at.starts_with("type="))
      return std::cerr << "godwit: --break: write type=PART of a message type's name\n", 2;
    const bool stepping = debugged();
    limits.stop_before = [part = options.break_at.substr(5), stepping, &names](const trace::event& e,
                                                                               const std::string& type) {
      if (type.find(part) == std::string::npos) return false;
      std::cerr << "godwit: before message " << analysis::label(names, e.id) << ", " << harmless(type) << '\n';
      if (!stepping) return true;
      std::raise(SIGTRAP);
      return false;
    };
  }
  const replayed_policies only(options.policy_plugin);
  const bool simulated = recording->fact(0, "command") == "sim";
  auto result =
      simulated ? replay_simulation(std::move(*recording), limits) : replay_node(std::move(*recording), limits);
  if (!result) return std::cerr << "godwit: " << harmless(result.error().line) << '\n', 1;
  const auto at = analysis::label(names, result->at);
  std::cout << (options.json ? json_text(to_json(*result, at)) + "\n" : to_text(*result, at));
  return result->difference.empty() ? 0 : 1;
}

} // namespace

void add_trace_replay_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<replay_options>();
  auto* command = app.add_subcommand(
      "replay", "Run the recorded actors again, message by message, and say where they first do something else");
  command->add_option("FILE", options->file, "A recording with contents and prompts, or of a simulation")->required();
  command->add_option("--until", options->until, "Stop after this message")->type_name("MESSAGE");
  command
      ->add_option("--break", options->break_at,
                   "type=PART: stop before the first message whose type's name has this part; under a debugger, stand "
                   "there and go on")
      ->type_name("CONDITION");
  command
      ->add_option("--policy-plugin", options->policy_plugin,
                   "The library of policies that the recorded process had; none is loaded otherwise")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "One JSON object on stdout and nothing else");
  command->callback([options, &result] { result.run = [options] { return replay(*options); }; });
}

} // namespace godwit::main
