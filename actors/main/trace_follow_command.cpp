#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/follow.hpp>
#include <godwit/runtime/trace/analysis/labels.hpp>

#include <spdlog/fmt/fmt.h>

#include <iostream>
#include <memory>

namespace godwit::main {

namespace json = boost::json;
namespace trace = runtime::trace;
namespace analysis = runtime::trace::analysis;

using analysis::label;

namespace {

struct follow_options {
  std::string event;
  std::vector<std::string> files;
  analysis::follow_limits limits;
  bool json = false;
};

std::string line(const analysis::index& of, analysis::position p, const std::string& branch) {
  auto out = fmt::format("{:>15}  {}{}  {}", offset_text(of, of.queued(p)), branch, label(of.source(), of[p].id),
                         event_text(of, p));
  if (const auto times = times_text(of, p); !times.empty()) out += "  " + times;
  return out + '\n';
}

std::string to_text(const analysis::index& of, const analysis::follow_tree& tree) {
  std::string out;
  if (tree.causes_cut) out += "more causes before these; --causes shows more\n";
  if (tree.cause_missing) out += "the first one's cause is not in the recording\n";
  if (!tree.causes.empty()) out += "because of\n";
  for (const auto cause : tree.causes) out += line(of, cause, "");
  out += "this\n";
  for (const auto& f : tree.effects) {
    std::string branch;
    std::string below;
    for (std::size_t i = 1; i < f.last_of.size(); ++i) {
      const auto here = i + 1 == f.last_of.size();
      branch += here ? (f.last_of[i] ? "`- " : "|- ") : (f.last_of[i] ? "   " : "|  ");
      below += f.last_of[i] ? "   " : "|  ";
    }
    out += line(of, f.what, branch);
    if (f.depth == 0 && tree.effects.size() > 1) out += "and so\n";
    if (f.left_out > 0)
      out += fmt::format("{:>15}  {}`- {} more; --depth and --limit show more\n", "", below, f.left_out);
  }
  return out;
}

json::object to_json(const analysis::index& of, const analysis::follow_tree& tree) {
  json::array causes;
  for (const auto cause : tree.causes) causes.push_back(event_json(of, cause));
  json::array effects;
  for (const auto& f : tree.effects) {
    auto one = event_json(of, f.what);
    one["tree_depth"] = f.depth;
    one["left_out"] = f.left_out;
    effects.push_back(std::move(one));
  }
  return {{"causes", std::move(causes)},
          {"causes_cut", tree.causes_cut},
          {"cause_missing", tree.cause_missing},
          {"effects", std::move(effects)}};
}

int follow(const follow_options& options) {
  const auto recording = read_recordings(options.files);
  if (!recording) return 1;
  const analysis::index of(*recording);
  const auto id = analysis::parse_event_id(*recording, options.event);
  const auto start = id ? of.find(*id) : analysis::nowhere;
  if (start == analysis::nowhere) {
    std::cerr << "godwit: the recording has no event '" << analysis::harmless(options.event)
              << "'; 'godwit trace show' gives their numbers\n";
    return 1;
  }
  const auto tree = analysis::follow(of, start, options.limits);
  std::cout << (options.json ? json_text(to_json(of, tree)) + "\n" : to_text(of, tree)) << std::flush;
  return 0;
}

} // namespace

void add_trace_follow_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<follow_options>();
  auto* command = trace.add_subcommand("follow", "Why a message came, and what followed from it");
  command->add_option("MESSAGE", o->event, "Its number as the other commands show it; any event")->required();
  add_recordings(*command, o->files);
  command->add_option("--causes", o->limits.causes_max, "At most so many, the nearest")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_option("--depth", o->limits.depth_max, "Effects of effects, so far")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_option("--limit", o->limits.events_max, "At most so many effects")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100'000'000}))
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON object");
  command->callback([o, &result] { result.run = [o] { return follow(*o); }; });
}

} // namespace godwit::main
