#include "main/http_parts.hpp"

#include "main/parts.hpp"

#include <godwit/actors/openai_edge.hpp>
#include <godwit/runtime/log/line_budget.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace godwit::main {

namespace http = transport::http;

namespace {

/// Lines that clients bring about, so many a second: who makes trouble must not fill the disk with it.
class bounded_log {
public:
  explicit bounded_log(runtime::log::logger log) : log_(std::move(log)) {}
  void dropped(const std::string& peer, const std::string& why) {
    const auto before = lines_.take(std::chrono::steady_clock::now().time_since_epoch());
    if (!before) return;
    if (*before > 0) log_.warning("closed {} more connections", *before);
    log_.warning("closed the connection of {}: {}", peer, why);
  }

private:
  runtime::log::logger log_;
  runtime::log::line_budget lines_{10};
};

} // namespace

http::server_settings make_http_settings(const serve_settings& s, const runtime::log::logger& log) {
  const auto possible = allow_connections(s.http.connections_max, "http.connections_max", log);
  http::server_settings out;
  out.threads = s.http.threads;
  out.header_bytes_max = s.http.header_bytes_max;
  out.body_bytes_max = s.http.body_bytes_max;
  out.bodies_bytes_max = s.http.bodies_bytes_max;
  out.queued_bytes_max = s.http.queued_bytes_max;
  out.answers_bytes_max = s.http.answers_bytes_max;
  out.connections_max = possible;
  out.connections_per_address_max = s.http.connections_per_address_max;
  out.header_timeout = s.http.header_timeout;
  out.body_timeout = s.http.body_timeout;
  out.idle_timeout = s.http.idle_timeout;
  out.write_timeout = s.http.write_timeout;
  out.error_response = actors::openai_error_response;
  out.on_dropped = [lines = std::make_shared<bounded_log>(log)](const std::string& peer, const std::string& why) {
    lines->dropped(peer, why);
  };
  return out;
}

std::vector<runtime::metrics::registry::registration> add_http_metrics(runtime::metrics::registry& metrics,
                                                                       const http::server& server) {
  using value = std::uint64_t http::server_stats::*;
  std::vector<runtime::metrics::registry::registration> out;
  const auto read = [&server](value which) {
    return [&server, which] { return static_cast<double>(server.stats().*which); };
  };
  const auto gauge = [&](const char* name, const char* help, value which) {
    out.push_back(metrics.add_callback_gauge(name, help, read(which)));
  };
  const auto counter = [&](const char* name, const char* help, value which) {
    out.push_back(metrics.add_callback_counter(name, help, read(which)));
  };
  gauge("godwit_http_connections", "Connections that are open.", &http::server_stats::connections);
  gauge("godwit_http_requests_open", "Requests that are being answered.", &http::server_stats::exchanges);
  counter("godwit_http_requests_total", "Requests read.", &http::server_stats::requests_total);
  counter("godwit_http_rejected_total",
          "Requests that were answered before they were read: malformed, too large, too late, refused with their body "
          "unread.",
          &http::server_stats::rejected_total);
  counter("godwit_http_connections_refused_total", "Connections over the bounds, of all or of one address.",
          &http::server_stats::refused_total);
  counter("godwit_http_handshakes_failed_total", "TLS handshakes that failed or took too long.",
          &http::server_stats::handshakes_failed_total);
  counter("godwit_http_disconnects_total", "Clients that went away before their answer was complete, streamed or not.",
          &http::server_stats::disconnects_total);
  counter("godwit_http_slow_readers_total", "Connections closed because their clients did not read.",
          &http::server_stats::slow_readers_total);
  counter("godwit_http_written_bytes_total", "Bytes written to clients.", &http::server_stats::bytes_written_total);
  return out;
}

} // namespace godwit::main
