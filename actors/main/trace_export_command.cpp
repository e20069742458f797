#include "main/output_file.hpp"
#include "main/trace_command.hpp"
#include "main/trace_input.hpp"
#include "main/trace_output.hpp"

#include <godwit/runtime/trace/analysis/exports.hpp>
#include <godwit/runtime/trace/analysis/labels.hpp>
#include <godwit/transport/http/client.hpp>
#include <godwit/transport/http/url.hpp>

#include <fstream>
#include <iostream>
#include <memory>
#include <ostream>

namespace godwit::main {

namespace http = transport::http;
namespace json = boost::json;
namespace analysis = runtime::trace::analysis;

namespace {

/// Of one request to a collector; some refuse bodies of more than a few MiB.
constexpr std::size_t spans_per_request = 2000;

struct export_options {
  std::vector<std::string> files;
  selection_flags wanted;
  std::string format = "perfetto";
  std::string output = "-";
  std::string collector;
  bool json = false;
};

/// What was done, for people or for programs.
void report(const export_options& o, std::size_t events, std::size_t bytes, const std::string& where) {
  if (o.json)
    std::cout << json_text(json::object{{"format", o.format}, {"events", events}, {"bytes", bytes}, {"output", where}})
              << '\n';
  else
    std::cout << analysis::harmless(where) << ": " << events << " events, " << bytes << " bytes\n";
  std::cout << std::flush;
}

void write(const export_options& o, const analysis::index& of, const std::vector<analysis::position>& events,
           const analysis::sink& out) {
  if (o.format == "perfetto")
    analysis::to_perfetto(of, events, out);
  else
    analysis::to_otlp(of, events, {}, out);
}

int to_file(const export_options& o, const analysis::index& of, const std::vector<analysis::position>& events) {
  const auto to_stdout = o.output == "-";
  std::ofstream file;
  if (!to_stdout) {
    keep_private(o.output);
    file.open(o.output, std::ios::binary);
  }
  std::ostream& out = to_stdout ? std::cout : file;
  std::size_t bytes = 0;
  write(o, of, events, [&](std::string_view piece) {
    bytes += piece.size();
    return static_cast<bool>(out << piece);
  });
  if (!out.flush()) {
    std::cerr << "godwit: cannot write " << (to_stdout ? "to standard output" : analysis::harmless(o.output)) << '\n';
    return 1;
  }
  if (!to_stdout) report(o, events.size(), bytes, o.output);
  return 0;
}

int to_collector(const export_options& o, const analysis::index& of, const std::vector<analysis::position>& events) {
  auto url = o.collector;
  while (url.ends_with('/')) url.pop_back();
  if (!url.ends_with("/v1/traces")) url += "/v1/traces";
  http::client_settings settings;
  settings.total_timeout = std::chrono::seconds(60);
  http::client client(settings);
  std::size_t bytes = 0;
  std::string error;
  analysis::otlp_options options;
  options.spans_max = spans_per_request;
  analysis::to_otlp(of, events, options, [&](std::string_view piece) {
    http::client_request request;
    request.method = "POST";
    request.url = url;
    request.fields = {{"Content-Type", "application/json"}};
    request.body = piece;
    const auto result = client.fetch(std::move(request));
    if (const auto* failed = std::get_if<http::client_error>(&result))
      error = failed->message;
    else if (const auto& answer = std::get<http::client_answer>(result); answer.status / 100 != 2)
      error = url + " answered " + std::to_string(answer.status) + ": " + analysis::shortened(answer.body, 200);
    bytes += error.empty() ? piece.size() : 0;
    return error.empty();
  });
  if (!error.empty()) {
    std::cerr << "godwit: " << analysis::harmless(error) << '\n';
    return 1;
  }
  report(o, events.size(), bytes, url);
  return 0;
}

int write(const export_options& o) {
  if (overwrites(o.files, o.output)) return 2;
  const auto recording = read_recordings(o.files);
  if (!recording) return 1;
  const analysis::index of(*recording);
  const auto wanted = o.wanted.resolve(of);
  if (!wanted) return 1;
  const auto events = analysis::select(of, *wanted);
  return o.collector.empty() ? to_file(o, of, events) : to_collector(o, of, events);
}

std::string check_collector(const std::string& text) {
  const auto parsed = http::parse_url(text);
  const auto* error = std::get_if<http::url_error>(&parsed);
  return error == nullptr ? std::string() : error->message + "; write it like http://127.0.0.1:4318";
}

} // namespace

void add_trace_export_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<export_options>();
  auto* command = trace.add_subcommand("export", "Write recordings as other tools read them: Perfetto, OpenTelemetry");
  add_recordings(*command, o->files);
  o->wanted.add_to(*command);
  auto* format = command->add_option("--format", o->format, "perfetto (Chrome's trace events, JSON) or otlp (JSON)");
  format->check(CLI::IsMember({"perfetto", "otlp"}))->type_name("FORMAT")->capture_default_str();
  auto* output = command->add_option("--output", o->output, "Where to write; -: standard output");
  output->type_name("FILE")->capture_default_str();
  command->add_option("--collector", o->collector, "Send it to an OpenTelemetry collector (POST /v1/traces)")
      ->type_name("URL")
      ->check(check_collector)
      ->excludes(output);
  command->add_flag("--json", o->json, "Say what was written as one JSON object; with --output or --collector");
  command->callback([o, format, &result] {
    if (!o->collector.empty() && format->empty()) o->format = "otlp";
    if (!o->collector.empty() && o->format != "otlp")
      throw CLI::ValidationError("--collector", "collectors take --format otlp");
    result.run = [o] { return write(*o); };
  });
}

} // namespace godwit::main
