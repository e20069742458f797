#include "main/http_front.hpp"

#include "main/head_options.hpp"
#include "main/http_files.hpp"
#include "main/http_parts.hpp"
#include "main/lora_options.hpp"
#include "main/parts.hpp"
#include "main/trace_page.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace godwit::main {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds poll_interval{50};

} // namespace

std::string host_for_url(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

http_front::http_front(const serve_settings& settings, parts given, const gpu::model::model_directory& model)
    : settings_(settings), parts_(std::move(given)) {
  edge_ = std::make_unique<actors::openai_edge>(parts_.requests, edge_options(model));
  const auto http = parse_endpoint(settings_.http.listen);
  gate_ = std::make_unique<actors::http_gate>(
      [edge = edge_.get()](transport::http::request request, std::shared_ptr<transport::http::exchange> exchange) {
        edge->handle(std::move(request), std::move(exchange));
      },
      actors::gate_options{settings_.http.cors_allowed_origins, http ? http->host : "", parts_.metrics,
                           parts_.log.component("http"), std::make_shared<const runtime::steady_clock>()});
  auto server_settings = make_http_settings(settings_, parts_.log.component("http"));
  server_settings.on_head = [gate = gate_.get()](const transport::http::request& head) {
    return gate->refuse_head(head);
  };
  server_settings.on_rejected = [gate = gate_.get()](const std::string& peer, const transport::http::request* head,
                                                     const transport::http::response& answer) {
    gate->rejected(peer, head, answer);
  };
  server_settings.on_own_answer = [gate = gate_.get()](const transport::http::request& head,
                                                       transport::http::headers& of_answer) {
    gate->share(head, of_answer);
  };
  server_ = std::make_unique<transport::http::server>(
      std::move(server_settings),
      [gate = gate_.get()](transport::http::request request, std::shared_ptr<transport::http::exchange> exchange) {
        gate->handle(std::move(request), std::move(exchange));
      });
  server_metrics_ = add_http_metrics(*parts_.metrics, *server_);
  files_ = std::make_unique<http_files>(settings_, *gate_, *server_, parts_.log.component("http"));
}

http_front::~http_front() { end(); }

actors::edge_options http_front::edge_options(const gpu::model::model_directory& model) {
  actors::edge_options o;
  o.model.name = parts_.model_name;
  o.model.aliases = settings_.model.aliases;
  std::erase(o.model.aliases, parts_.model_name); // where that is the folder's
  o.model.root = model.path;
  o.model.adapters = make_adapters(settings_);
  auto names = o.model.aliases;
  names.push_back(parts_.model_name);
  for (const auto& name : names)
    if (std::error_code unseen; o.model.adapters && std::filesystem::exists(o.model.adapters->path() / name, unseen))
      parts_.log.component("http").warning(
          "the adapter '{}' has a name of the model, which clients get for it: rename it, or "
          "give the model another one (model.name, model.aliases)",
          name);
  o.model.tokens = model.tokens;
  o.model.chat = parts_.chat;
  o.model.context_length = parts_.context_length;
  o.model.vocabulary = model.configuration.vocabulary;
  o.model.eos = model.configuration.eos;
  auto& defaults = o.model.defaults;
  defaults.temperature = model.configuration.default_temperature.value_or(defaults.temperature);
  defaults.top_p = model.configuration.default_top_p.value_or(defaults.top_p);
  defaults.top_k = model.configuration.default_top_k.value_or(defaults.top_k);
  defaults.min_p = model.configuration.default_min_p.value_or(defaults.min_p);
  defaults.repetition_penalty = model.configuration.default_repetition_penalty.value_or(defaults.repetition_penalty);
  o.model.tells_reasoning = settings_.model.reasoning_parser != reasoning_format::none;
  o.limits.body_bytes_max = settings_.http.body_bytes_max;
  o.limits.lists_unsupported = settings_.http.ignore_unsupported;
  // More answers than there are places for never find any, however idle the server is.
  o.limits.choices_max = std::min(o.limits.choices_max, settings_.frontend.requests_max);
  o.limits.beams_max = std::min(o.limits.beams_max, settings_.frontend.requests_max);
  o.limits.prompts_max = std::min(settings_.frontend.prompts_max, settings_.frontend.requests_max);
  o.limits.execution_levels = execution_level_names(settings_);
  o.limits.context_length = parts_.context_length;
  o.large_bytes = 64 * 1024;
  o.limits.vocabulary = model.configuration.vocabulary;
  o.metrics = parts_.metrics;
  o.log = parts_.log.component("http");
  if (parts_.records != nullptr) {
    o.recorder = parts_.records->recorder();
    o.on_ended = [records = parts_.records](const actors::ended_request& request) { records->ended(request); };
  }
  o.debug_page = trace_page();
  if (settings_.http.debug && o.recorder)
    o.debug_recording = [recorder = o.recorder](std::chrono::nanoseconds last) { return recorder->snapshot(last); };
  return o;
}

std::optional<start_error> http_front::listen() {
  const auto http = parse_endpoint(settings_.http.listen);
  if (!http) return start_error{"http.listen: '" + settings_.http.listen + "' is not HOST:PORT", 2};
  host_ = http->host;
  if (auto error = files_->start()) return error;
  if (const auto error = server_->listen(http->host, http->port))
    return start_error{error->message + (error->in_use ? "; choose another with --listen HOST:PORT" : "")};
  return std::nullopt;
}

void http_front::refuse_new() { edge_->drain(); }

void http_front::end() {
  if (!edge_) return;
  for (int i = 0; i < 40 && server_->stats().exchanges > 0; ++i) std::this_thread::sleep_for(poll_interval / 5);
  files_.reset();
  server_->stop(); // nobody calls the gate or the edge any more
  edge_.reset();   // a thread of its may still answer, and must find the server
}

void http_front::linger(milliseconds time, const std::function<bool()>& hurry) {
  edge_->look_unwell();
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until && !hurry()) std::this_thread::sleep_for(poll_interval);
}

bool http_front::drain(milliseconds timeout, const std::function<bool()>& hurry) {
  edge_->drain();
  const auto done = std::make_shared<std::atomic<bool>>(false);
  server_->drain([done] { *done = true; });
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!*done) {
    std::this_thread::sleep_for(poll_interval / 5); // where nothing is open it takes no longer, and is no failure
    // What a client has begun to say, and does not go on with, is no request that is cut off.
    if (!*done && (std::chrono::steady_clock::now() >= deadline || hurry())) return server_->stats().exchanges == 0;
  }
  return true;
}

std::string http_front::url() const {
  return (settings_.http.tls_cert.empty() ? "http://" : "https://") + host_for_url(host_) + ":" +
         std::to_string(server_->local_port());
}

} // namespace godwit::main
