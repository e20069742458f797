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
namespace analysis = runtime::trace::analysis;

using analysis::label;

namespace {

struct show_options {
  std::vector<std::string> files;
  selection_flags wanted;
  std::size_t limit = 1000;
  bool content = false;
  bool json = false;
};

std::string line(const analysis::index& of, analysis::position p, bool content) {
  const auto& e = of[p];
  auto out = fmt::format("{:>15} {:>10}  ", offset_text(of, of.begin(p)), label(of.source(), e.id));
  out += event_text(of, p, content);
  if (const auto times = times_text(of, p); !times.empty()) out += "  " + times;
  if (of.about(p) != 0) out += fmt::format("  request {}", of.about(p));
  if (e.depth > 0) out += fmt::format("  behind {}", e.depth);
  out += '\n';
  if (content && !e.text.empty()) out += fmt::format("{:>28}{}\n", "", analysis::harmless(e.text));
  return out;
}

int show(const show_options& options) {
  const auto recording = read_recordings(options.files);
  if (!recording) return 1;
  const analysis::index of(*recording);
  const auto wanted = options.wanted.resolve(of);
  if (!wanted) return 1;
  const auto events = analysis::select(of, *wanted);
  const auto shown = std::min(options.limit, events.size());
  if (options.json) {
    std::cout << "{\"events\":[";
    for (std::size_t i = 0; i < shown; ++i) std::cout << (i == 0 ? "" : ",\n") << json_text(event_json(of, events[i]));
    std::cout << "],\"left_out\":" << events.size() - shown << "}\n" << std::flush;
    return 0;
  }
  for (std::size_t i = 0; i < shown; ++i) std::cout << line(of, events[i], options.content);
  std::cout << std::flush;
  if (events.empty()) std::cerr << "godwit: the recording has no such events\n";
  if (shown < events.size())
    std::cerr << "godwit: " << events.size() - shown << " more left out; --limit " << events.size() << " shows them\n";
  return 0;
}

} // namespace

void add_trace_show_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<show_options>();
  auto* command = trace.add_subcommand("show", "Events one by one, those that the flags choose");
  add_recordings(*command, o->files);
  o->wanted.add_to(*command);
  command->add_option("--limit", o->limit, "At most so many")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_flag("--content", o->content,
                    "What messages say, where it was recorded, and all of what notes and spans say");
  command->add_flag("--json", o->json, "One JSON object");
  command->callback([o, &result] { result.run = [o] { return show(*o); }; });
}

} // namespace godwit::main
