#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/diff.hpp>
#include <godwit/runtime/trace/analysis/labels.hpp>

#include <spdlog/fmt/fmt.h>

#include <iostream>
#include <memory>

namespace godwit::main {

namespace json = boost::json;
namespace analysis = runtime::trace::analysis;

using analysis::label;

namespace {

struct diff_flags {
  std::string first;
  std::string second;
  std::size_t limit = 10;
  std::size_t context = 5;
  bool structure = false;
  bool json = false;
};

/// `a.gwt,b.gwt`: the files of one run.
std::vector<std::string> files_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string_view name_of(analysis::difference what) {
  switch (what) {
  case analysis::difference::only_in_first:
    return "only_in_first";
  case analysis::difference::only_in_second:
    return "only_in_second";
  case analysis::difference::content:
    return "content";
  }
  return "content";
}

std::string line(const analysis::index& of, analysis::position p) {
  return fmt::format("{:>15}  {}  {}\n", offset_text(of, of.begin(p)), label(of.source(), of[p].id), event_text(of, p));
}

/// The causes that both runs have, the nearest last.
std::string context(const analysis::index& of, analysis::position cause, std::size_t lines_max) {
  std::vector<analysis::position> causes;
  for (auto p = cause; p != analysis::nowhere && causes.size() < lines_max; p = of.cause(p)) causes.push_back(p);
  std::string out;
  for (auto i = causes.size(); i-- > 0;) out += "    " + line(of, causes[i]);
  return out;
}

std::string to_text(const analysis::index& a, const analysis::index& b, const analysis::divergence& d,
                    std::size_t lines_max) {
  auto out = context(a, d.first_cause, lines_max);
  if (d.first != analysis::nowhere) out += "  - " + line(a, d.first);
  if (d.second != analysis::nowhere) out += "  + " + line(b, d.second);
  if (!d.detail.empty()) out += "    " + d.detail + '\n';
  return out;
}

json::object to_json(const analysis::index& a, const analysis::index& b, const analysis::diff_result& found) {
  json::array list;
  const auto event = [](const analysis::index& of, analysis::position p) {
    return p == analysis::nowhere ? json::value() : json::value(event_json(of, p));
  };
  for (const auto& d : found.divergences)
    list.push_back(json::object{
        {"what", name_of(d.what)}, {"first", event(a, d.first)}, {"second", event(b, d.second)}, {"detail", d.detail}});
  return {{"equal", found.equal()},
          {"matched", found.matched},
          {"differences", found.differences},
          {"divergences", std::move(list)}};
}

int compare(const diff_flags& flags) {
  const auto first = read_recordings(files_of(flags.first));
  if (!first) return 1;
  const auto second = read_recordings(files_of(flags.second));
  if (!second) return 1;
  const analysis::index a(*first);
  const analysis::index b(*second);
  analysis::diff_options options;
  options.content = !flags.structure;
  options.list_max = flags.limit;
  const auto found = analysis::diff(a, b, options);
  if (flags.json) {
    std::cout << json_text(to_json(a, b, found)) << '\n';
  } else if (found.equal()) {
    std::cout << "no difference in " << found.matched << " events\n";
  } else {
    std::cout << fmt::format("{} events are in both runs, {} differences; the earliest one (- first, + second):\n",
                             found.matched, found.differences);
    for (std::size_t i = 0; i < found.divergences.size(); ++i) {
      if (i == 1) std::cout << "\nthe next ones:\n";
      std::cout << to_text(a, b, found.divergences[i], i == 0 ? flags.context : 0);
    }
  }
  std::cout << std::flush;
  return found.equal() ? 0 : 1;
}

} // namespace

void add_trace_diff_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<diff_flags>();
  auto* command = trace.add_subcommand("diff", "Where two runs part: the first message that is different");
  command->add_option("FIRST", o->first, "A recording; files of several processes of one run with commas between")
      ->required()
      ->check([](const std::string& text) { return files_of(text).empty() ? "it names no file" : std::string(); });
  command->add_option("SECOND", o->second, "The other run's")->required()->check([](const std::string& text) {
    return files_of(text).empty() ? "it names no file" : std::string();
  });
  command->add_flag("--structure", o->structure, "Compare who sent what to whom, and not what messages say");
  command->add_option("--limit", o->limit, "At most so many differences, the earliest")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--context", o->context, "So many causes above the first one")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000'000}))
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON object");
  command->footer("Exit code: 0 where there is no difference, otherwise 1.");
  command->callback([o, &result] { result.run = [o] { return compare(*o); }; });
}

} // namespace godwit::main
