#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/analysis/sequence.hpp>

#include <iostream>
#include <memory>

namespace godwit::main {

namespace json = boost::json;
namespace analysis = runtime::trace::analysis;

namespace {

struct sequence_flags {
  std::vector<std::string> files;
  selection_flags wanted;
  std::string format = "text";
  analysis::sequence_options drawn;
  bool all = false;
  bool json = false;
};

json::object to_json(const analysis::index& of, const analysis::sequence& s) {
  json::array steps;
  for (const auto& step : s.steps)
    steps.push_back(json::object{{"event", analysis::label(of.source(), of[step.what].id)},
                                 {"from", step.from},
                                 {"to", step.to},
                                 {"text", step.text},
                                 {"answer", step.answer},
                                 {"failed", step.failed},
                                 {"lost", step.lost},
                                 {"note", step.note},
                                 {"repeated_steps", step.repeated_steps},
                                 {"repeats", step.repeats},
                                 {"queued_ns", step.queued_ns},
                                 {"queue_ns", step.queue_ns},
                                 {"handling_ns", step.handling_ns}});
  return {{"participants", json::array(s.participants.begin(), s.participants.end())},
          {"steps", std::move(steps)},
          {"left_out", s.left_out}};
}

int draw(const sequence_flags& options) {
  const auto recording = read_recordings(options.files);
  if (!recording) return 1;
  const analysis::index of(*recording);
  const auto wanted = options.wanted.resolve(of);
  if (!wanted) return 1;
  auto drawn = options.drawn;
  drawn.fold = !options.all;
  const auto s = analysis::make_sequence(of, analysis::select(of, *wanted), drawn);
  if (options.json)
    std::cout << json_text(to_json(of, s)) << '\n';
  else if (options.format == "mermaid")
    std::cout << analysis::to_mermaid(s);
  else if (options.format == "plantuml")
    std::cout << analysis::to_plantuml(s);
  else
    std::cout << analysis::to_text(s);
  std::cout << std::flush;
  if (s.steps.empty()) std::cerr << "godwit: the recording has no such events\n";
  return 0;
}

} // namespace

void add_trace_sequence_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<sequence_flags>();
  auto* command = trace.add_subcommand("sequence", "Draw who said what to whom: for a terminal, Mermaid, PlantUML");
  add_recordings(*command, o->files);
  o->wanted.add_to(*command);
  auto* format = command->add_option("--format", o->format, "text, mermaid or plantuml");
  format->check(CLI::IsMember({"text", "mermaid", "plantuml"}))->type_name("FORMAT")->capture_default_str();
  command->add_flag("--all", o->all, "Every round of what is repeated, instead of one and their number");
  command->add_option("--limit", o->drawn.steps_max, "At most so many arrows and notes, the first ones")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON object")->excludes(format);
  command->callback([o, &result] { result.run = [o] { return draw(*o); }; });
}

} // namespace godwit::main
