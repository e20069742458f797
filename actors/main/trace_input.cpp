#include "main/trace_input.hpp"

#include "main/output_file.hpp"

#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/runtime/trace/file.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <utility>

namespace godwit::main {

namespace trace = runtime::trace;
namespace analysis = runtime::trace::analysis;

namespace {

std::string check_time(const std::string& text) {
  return parse_time(text) ? "" : "'" + text + "' is not a time; write it like 250us, 5ms or 1.5s";
}

std::string check_kind(const std::string& text) {
  if (analysis::parse_event_kind(text) || analysis::parse_message_kind(text)) return {};
  return "no kind is called '" + text +
         "'; there are delivery, sent, spawned, ended, span, note, gap, and of messages message, request, answer, "
         "failure, timer, down, stop";
}

} // namespace

std::optional<trace::recording> read_recordings(const std::vector<std::string>& files) {
  std::vector<trace::recording> parts;
  for (const auto& file : files) {
    auto part = trace::read_file(file);
    if (!part) {
      std::cerr << "godwit: " << analysis::harmless(part.error().message) << '\n';
      return std::nullopt;
    }
    parts.push_back(std::move(*part));
  }
  return parts.size() == 1 ? std::move(parts.front()) : trace::merge(std::move(parts));
}

bool overwrites(const std::vector<std::string>& files, const std::string& output) {
  const auto read = std::ranges::find_if(files, [&](const std::string& file) { return same_file(file, output); });
  if (read == files.end()) return false;
  std::cerr << "godwit: --output names the recording " << analysis::harmless(*read) << "; name another file\n";
  return true;
}

void add_recordings(CLI::App& command, std::vector<std::string>& files) {
  command.add_option("FILE", files, "Recordings; several of one run are merged")->required();
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  const auto unit = text.substr(static_cast<std::size_t>(stop - text.data()));
  for (const auto& [name, ns] :
       {std::pair<std::string_view, double>{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}})
    if (unit == name && number * ns < 9e18) return std::llround(number * ns);
  return std::nullopt;
}

void selection_flags::add_to(CLI::App& command) {
  command.add_option("--request", request_, std::string("Only what is about it. ") + request_help)
      ->type_name("REQUEST_ID");
  command
      .add_option("--actor", wanted_.actor, "Only what it sends or gets: part of its name, 'llumlet 12', or a number")
      ->type_name("ACTOR");
  command
      .add_option("--type", wanted_.type, "Only messages, spans and notes whose name has this in it, or matches a *")
      ->type_name("TYPE");
  command.add_option("--kind", kinds_, "Only this kind: delivery, span, note, ..., or request, answer, timer, ...")
      ->type_name("KIND")
      ->take_all()
      ->expected(1)
      ->check(check_kind);
  command.add_option("--process", wanted_.process, "Only events of this process: part of its name, or its number")
      ->type_name("NAME");
  command.add_option("--from", from_, "Only what had not ended before, since the recording began")
      ->type_name("TIME")
      ->check(check_time);
  command.add_option("--to", to_, "Only what had begun until then")->type_name("TIME")->check(check_time);
  command.add_option("--queue-min", queue_min_, "Only messages that waited so long")
      ->type_name("TIME")
      ->check(check_time);
  command.add_option("--handling-min", handling_min_, "Only what took so long once it had begun")
      ->type_name("TIME")
      ->check(check_time);
}

std::optional<analysis::selection> selection_flags::resolve(const analysis::index& of) const {
  auto out = wanted_;
  if (!request_.empty()) {
    const auto found = request_named(analysis::model_requests(of), request_);
    if (!found) return std::nullopt;
    out.request = found->id;
  }
  for (const auto& kind : kinds_) {
    if (const auto k = analysis::parse_event_kind(kind)) out.kinds.push_back(*k);
    if (const auto k = analysis::parse_message_kind(kind)) out.messages.push_back(*k);
  }
  if (!from_.empty()) out.from_ns = parse_time(from_);
  if (!to_.empty()) out.to_ns = parse_time(to_);
  if (!queue_min_.empty()) out.queue_min_ns = parse_time(queue_min_).value_or(0);
  if (!handling_min_.empty()) out.handling_min_ns = parse_time(handling_min_).value_or(0);
  return out;
}

std::optional<analysis::model_request> request_named(const std::vector<analysis::model_request>& all,
                                                     const std::string& text) {
  auto found = analysis::find_request(all, text);
  if (!found)
    std::cerr << "godwit: the recording has no request '" << analysis::harmless(text)
              << "'; 'godwit trace list' shows those that it has\n";
  return found;
}

} // namespace godwit::main
