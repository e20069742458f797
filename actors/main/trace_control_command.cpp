#include "main/trace_control_command.hpp"

#include "main/control_connection.hpp"
#include "main/number_range.hpp"
#include "main/output_file.hpp"
#include "main/trace_input.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <spdlog/fmt/fmt.h>

#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {

namespace trace = runtime::trace;
using trace::analysis::harmless; // what other processes say

namespace {

/// The head waits for its members before it answers.
constexpr std::chrono::seconds answer_timeout{20};
constexpr std::uint64_t dump_bytes_max = std::uint64_t{4} << 30U;

int fail(const std::string& line) {
  std::cerr << "godwit: " << harmless(line) << '\n';
  return 1;
}

struct level_options {
  control_place control;
  actors::trace_order order;
  bool everything = false;
};

int set_level(const level_options& options) {
  control_connection head(options.control);
  const auto answer = head.ask(options.order, answer_timeout);
  if (!answer) return head.exit_code();
  int code = 0;
  for (const auto& process : answer->processes) {
    if (!process.error.empty()) {
      code = fail(process.process + ": " + process.error);
      continue;
    }
    std::cout << harmless(process.process) << ": " << harmless(process.level);
    if (process.lost > 0) std::cout << ", " << process.lost << " events were lost so far";
    std::cout << '\n';
  }
  std::cout << std::flush;
  return code;
}

struct dump_options {
  control_place control;
  std::string last;
  std::string output;
};

std::optional<std::string> fetch(control_connection& head, const actors::dumped_file& file) {
  std::string out;
  while (out.size() < dump_bytes_max) {
    auto part = head.ask(actors::dump_part_query{file.key, file.number, out.size()}, answer_timeout);
    if (!part) return std::nullopt;
    if (!part->error.empty()) {
      fail(file.process + ": " + part->error);
      return std::nullopt;
    }
    if (part->bytes.empty()) return out;
    out += part->bytes;
  }
  fail(file.path + " is too large");
  return std::nullopt;
}

int dump(const dump_options& options) {
  actors::dump_order order;
  if (!options.last.empty()) {
    const auto last = parse_time(options.last);
    if (!last || *last <= 0) {
      std::cerr << "godwit: --last: '" << options.last << "' is no time, such as 10s or 500ms\n";
      return 2;
    }
    order.last_ns = *last;
  }
  if (options.output == "-") { // a recording is no text, and what is dumped is listed there
    std::cerr << "godwit: --output: name a file; standard output has the list of what was dumped\n";
    return 2;
  }
  if (const auto why = options.output.empty() ? std::nullopt : why_not_writable(options.output))
    return fail("cannot write " + options.output + ": " + *why);
  control_connection head(options.control);
  const auto answer = head.ask(order, answer_timeout);
  if (!answer) return head.exit_code();
  int code = 0;
  std::vector<trace::recording> parts;
  for (const auto& file : answer->files) {
    if (!file.error.empty()) {
      code = fail(file.process + ": " + file.error);
      continue;
    }
    std::cout << harmless(file.process) << ": " << file.events << " events in " << harmless(file.path) << std::endl;
    if (options.output.empty()) continue;
    const auto bytes = fetch(head, file);
    if (!bytes) return 1;
    auto part = trace::read_bytes(std::as_bytes(std::span(*bytes)));
    if (!part) return fail(file.path + ": " + part.error().message);
    parts.push_back(std::move(*part));
  }
  if (options.output.empty() || parts.empty()) return code;
  const auto whole = parts.size() == 1 ? std::move(parts.front()) : trace::merge(std::move(parts));
  if (const auto written = trace::write_file(options.output, whole); !written) return fail(written.error().message);
  std::cout << options.output << ": " << whole.events.size() << " events of " << answer->files.size()
            << (answer->files.size() == 1 ? " process" : " processes") << std::endl;
  return code;
}

} // namespace

void add_trace_level_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<level_options>();
  auto* command = trace.add_subcommand("level", "Show or switch what the processes of a running cluster record");
  command->add_option("LEVEL", o->order.level, "off, headers or content; without it only what is chosen is switched")
      ->check(CLI::IsMember({"off", "headers", "content"}));
  control_connection::add_option(*command, o->control);
  command->add_option("--actor", o->order.actors, "Only messages from or to these: llumlet, or 'llumlet 12'")
      ->type_name("NAME");
  command->add_option("--type", o->order.types, "Only messages whose type contains one of these")->type_name("TEXT");
  command->add_option("--request", o->order.requests, "Only messages about these model requests")->type_name("NUMBER");
  command->add_option("--sample", o->order.sample, "Only messages about this share of the model requests, or none")
      ->type_name("SHARE")
      ->check(between(0.0, 1.0));
  command->add_flag("--everything", o->everything, "All messages again");
  command->callback([o, command, &result] {
    for (const char* chooses : {"--actor", "--type", "--request", "--sample", "--everything"})
      o->order.replaces = o->order.replaces || command->count(chooses) > 0;
    result.run = [o] { return set_level(*o); };
  });
}

void add_trace_dump_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<dump_options>();
  auto* command = trace.add_subcommand("dump", "Write the flight recorders of a running cluster into files");
  control_connection::add_option(*command, o->control);
  command->add_option("--last", o->last, "Only this time until now; without it all that is kept")->type_name("TIME");
  command->add_option("--output", o->output, "Fetch the files and merge them into this one")->type_name("FILE");
  command->callback([o, &result] { result.run = [o] { return dump(*o); }; });
}

} // namespace godwit::main
