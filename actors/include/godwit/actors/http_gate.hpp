#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/transport/http/exchange.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::actors {

/// Who may ask for what at the HTTP endpoint, by keys that are kept in a file.
class api_keys {
public:
  /// One key a line; empty lines and what follows '#' at a line's begin do not count. The error names the line, never
  /// what is in it.
  [[nodiscard]] static protocols::expected<api_keys, std::string> parse(std::string_view text);

  /// Whether `authorization` is "Bearer KEY" with one of them. How long that takes depends on neither the keys' letters
  /// nor on which of them it is, only on their lengths.
  [[nodiscard]] bool admit(std::string_view authorization) const noexcept;
  /// The same of a key by itself, as Anthropic's clients send it.
  [[nodiscard]] bool has(std::string_view key) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }

private:
  std::vector<std::string> keys_;
};

struct gate_options {
  /// Origins whose pages browsers let read answers: "https://app.example", or "*" for all. Empty: none.
  std::vector<std::string> cors_origins;
  std::string host;                              ///< that the server listens on, as configured
  runtime::metrics::registry* metrics = nullptr; ///< may be null
  runtime::log::logger log = {};
  std::shared_ptr<const runtime::clock> clock = {}; ///< null: requests are not logged
};

class access_log;

/// What stands before the endpoint's routes: keys, browsers' rules, and names that lead here by a trick.
///
/// * With keys, everything but /health, /ping, /version and /metrics wants one; 401 otherwise.
/// * /debug/ is served only where the Host field is an address, `localhost` or `host`: a page whose name was made to
///   point here after it was loaded (DNS rebinding) has another name; 403.
/// * With `cors_origins`, preflight requests are answered, and answers say who may read them. Not those below /debug,
///   which may hold prompts: no other page reads them.
/// * With a clock, the log has a line for each request (debug) or for each that is refused (info, ten a second).
///
/// Thread-safe; must outlive the server that calls it.
class http_gate {
public:
  http_gate(transport::http::handler next, gate_options options);

  /// An http::handler.
  void handle(transport::http::request request, std::shared_ptr<transport::http::exchange> exchange);
  /// For http::server_settings::on_head: the answer to a request that lacks a key, or whose body is compressed, say
  /// (bodies are read as they come); its body need not be read.
  [[nodiscard]] std::optional<transport::http::response> refuse_head(const transport::http::request& head);
  /// For http::server_settings::on_rejected: logs it.
  void rejected(const std::string& peer, const transport::http::request* head,
                const transport::http::response& answer) const;
  /// For http::server_settings::on_own_answer: who may read what the server answers by itself.
  void share(const transport::http::request& head, transport::http::headers& of_answer) const;
  /// Replaces the keys; null: none are asked for.
  void set_keys(std::shared_ptr<const api_keys> keys);

private:
  [[nodiscard]] std::optional<transport::http::response> without_key(const transport::http::request& head);
  [[nodiscard]] std::optional<transport::http::response> encoded(const transport::http::request& head);
  [[nodiscard]] std::shared_ptr<const api_keys> keys() const;
  /// The origin to name in the answer; empty: it may not read it.
  [[nodiscard]] std::string allowed_origin(const transport::http::request& request) const;
  void refuse(transport::http::exchange& exchange, const char* reason, transport::http::response answer);

  const transport::http::handler next_;
  const gate_options options_;
  std::shared_ptr<access_log> log_; ///< null: nothing is logged
  mutable std::mutex mutex_;
  std::shared_ptr<const api_keys> keys_;
  runtime::metrics::family<runtime::metrics::counter>* refused_ = nullptr;
};

/// Whether a Host field is none that DNS could have led here: an address, `localhost`, or `configured`.
[[nodiscard]] bool is_direct_host(std::string_view host_field, std::string_view configured);

} // namespace godwit::actors
