#include "main/trace_ui_command.hpp"

#include "main/output_file.hpp"
#include "main/settings.hpp"
#include "main/signals.hpp"
#include "main/trace_input.hpp"
#include "main/trace_page.hpp"

#include <godwit/runtime/trace/analysis/index.hpp>
#include <godwit/runtime/trace/analysis/requests.hpp>
#include <godwit/runtime/trace/page_json.hpp>
#include <godwit/transport/http/server.hpp>

#include <chrono>
#include <fstream>
#include <iostream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::main {

namespace http = transport::http;
namespace trace = runtime::trace;

namespace {

struct ui_options {
  std::vector<std::string> files;
  std::string listen = "127.0.0.1:0";
  std::string output;
  std::vector<std::string> requests;
  trace::page_json_options page;
};

std::string title_of(const std::vector<std::string>& files) {
  std::string out;
  for (const auto& file : files) out += (out.empty() ? "" : ", ") + file.substr(file.rfind('/') + 1);
  return out;
}

int write_page(const std::string& path, std::string_view json) {
  const auto page = trace_page_with(json);
  keep_private(path);
  std::ofstream out(path, std::ios::binary);
  out << page;
  if (!out.flush()) {
    std::cerr << "godwit: cannot write " << path << '\n';
    return 1;
  }
  std::cout << path << ": " << page.size() << " bytes" << std::endl;
  return 0;
}

int serve_page(const endpoint& where, std::string json) {
  signals stop; // before any thread; reading a large file ends at Ctrl-C as usual
  const bool loopback = is_loopback(where.host);
  http::server_settings settings;
  settings.threads = 1;
  http::server server(settings, trace_ui_handler(std::make_shared<const std::string>(std::move(json)), loopback));
  if (const auto error = server.listen(where.host, where.port)) {
    std::cerr << "godwit: " << error->message << '\n';
    return 1;
  }
  if (!loopback) std::cerr << "godwit: " << where.host << " is open to other machines, and authenticates nobody\n";
  const bool v6 = where.host.find(':') != std::string::npos;
  std::cout << "http://" << (v6 ? "[" + where.host + "]" : where.host) << ':' << server.local_port()
            << "/ (Ctrl-C ends it)" << std::endl;
  while (!stop.received()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.stop();
  return 0;
}

int show(const ui_options& o) {
  const auto where = parse_endpoint(o.listen);
  if (!where) {
    std::cerr << "godwit: --listen: '" << o.listen << "' is not HOST:PORT\n";
    return 2;
  }
  if (overwrites(o.files, o.output)) return 2;
  auto recording = read_recordings(o.files);
  if (!recording) return 1;
  auto page = o.page;
  if (!o.requests.empty()) {
    const auto all = trace::analysis::model_requests(trace::analysis::index(*recording));
    for (const auto& text : o.requests) {
      const auto found = request_named(all, text);
      if (!found) return 1;
      page.requests.push_back(found->id);
    }
  }
  page.title = title_of(o.files);
  auto json = trace::page_json(*recording, page);
  recording.reset(); // may be large, and is not needed any more
  if (!o.output.empty()) return write_page(o.output, json);
  return serve_page(*where, std::move(json));
}

http::response page_response(std::string type, std::string body) {
  http::response out;
  out.content_type = std::move(type);
  out.fields = {{"Cache-Control", "no-store"},
                {"X-Content-Type-Options", "nosniff"},
                {"Content-Security-Policy", "frame-ancestors 'none'"}};
  out.body = std::move(body);
  return out;
}

http::response refusal(int status, std::string text) {
  auto out = page_response("text/plain; charset=utf-8", std::move(text) + "\n");
  out.status = status;
  return out;
}

/// Whether a Host field names this machine by an address or name that nobody else can give away.
bool names_loopback(const http::request& request) {
  const auto field = request.fields.find("Host");
  if (!field) return true; // HTTP/1.0, and no browser
  auto host = std::string(*field);
  if (const auto end = parse_endpoint(host))
    host = end->host;
  else if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return is_loopback(host);
}

} // namespace

http::handler trace_ui_handler(std::shared_ptr<const std::string> json, bool loopback_only) {
  return [json = std::move(json), loopback_only](const http::request& request,
                                                 const std::shared_ptr<http::exchange>& exchange) {
    if (loopback_only && !names_loopback(request)) return exchange->respond(refusal(403, "not for this host"));
    const bool page = request.target == "/";
    if (!page && request.target != "/recording.json") return exchange->respond(refusal(404, "nothing here"));
    if (request.method != "GET") {
      auto out = refusal(405, "only GET");
      out.fields.add("Allow", "GET");
      return exchange->respond(std::move(out));
    }
    exchange->respond(page ? page_response("text/html; charset=utf-8", std::string(trace_page()))
                           : page_response("application/json", *json));
  };
}

void add_trace_ui_command(CLI::App& trace, command_result& result) {
  auto o = std::make_shared<ui_options>();
  auto* command = trace.add_subcommand("ui", "A page that shows recordings: topology, requests, sequences");
  add_recordings(*command, o->files);
  auto* listen = command->add_option("--listen", o->listen, "Where to serve the page; port 0 takes a free one");
  listen->type_name("HOST:PORT")->capture_default_str();
  command->add_option("--output", o->output, "Write the page with the recording inside, and serve nothing")
      ->type_name("FILE.html")
      ->excludes(listen);
  command
      ->add_option("--request", o->requests,
                   "Only what is about this model request and what led to it: a number or client's id (cmpl-...), last "
                   "or slowest; may be given again")
      ->type_name("REQUEST");
  command->add_option("--events-max", o->page.events_max, "The newest so many events; the page says what is left out")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{5'000'000}))
      ->capture_default_str();
  command->callback([o, &result] { result.run = [o] { return show(*o); }; });
}

} // namespace godwit::main
