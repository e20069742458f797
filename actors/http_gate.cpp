#include <godwit/actors/http_gate.hpp>

#include "access_log.hpp"
#include "api_errors.hpp"
#include "passing_exchange.hpp"

#include <godwit/protocols/openai/error.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::actors {

namespace http = transport::http;
namespace openai = protocols::openai;

namespace {

constexpr std::size_t keys_max = 10'000;
constexpr std::size_t key_bytes_max = 1024;
constexpr std::array<std::string_view, 4> open_to_all{"/health", "/ping", "/version", "/metrics"};

bool is_open(std::string_view target) {
  return std::find(open_to_all.begin(), open_to_all.end(), target) != open_to_all.end();
}

/// Looks at every byte, whatever they are. How long a key is, is no secret.
bool same(std::string_view given, std::string_view key) noexcept {
  if (given.size() != key.size()) return false;
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference =
        difference | static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i]));
  return difference == 0;
}

/// Says in an answer who may read it; once more changes nothing. Nobody (empty): that others may, so that caches ask.
void share_with(http::headers& fields, const std::string& origin) {
  if (origin.empty()) return fields.set("Vary", "Origin");
  fields.set("Access-Control-Allow-Origin", origin);
  fields.set("Access-Control-Expose-Headers", "X-Request-Id, request-id, X-Godwit-Ignored, Retry-After, traceparent");
  if (origin != "*") fields.set("Vary", "Origin");
}

/// Says so in whatever is answered.
class shared_answer final : public passing_exchange {
public:
  shared_answer(std::shared_ptr<http::exchange> inner, std::string origin)
      : passing_exchange(std::move(inner)), origin_(std::move(origin)) {}
  void respond(http::response answer) override {
    share_with(answer.fields, origin_);
    inner().respond(std::move(answer));
  }
  void begin_stream(int status, http::headers fields) override {
    share_with(fields, origin_);
    inner().begin_stream(status, std::move(fields));
  }

private:
  std::string origin_;
};

http::response preflight(const http::request& request) {
  http::response out;
  out.status = 204;
  out.content_type = {};
  out.fields.add("Access-Control-Allow-Methods", "GET, POST");
  // What a page asks for with a key of its own is no secret from it: any fields.
  if (const auto asked = request.fields.find("Access-Control-Request-Headers"))
    out.fields.add("Access-Control-Allow-Headers", std::string(asked->substr(0, 1024)));
  out.fields.add("Access-Control-Max-Age", "600");
  return out;
}

} // namespace

protocols::expected<api_keys, std::string> api_keys::parse(std::string_view text) {
  api_keys out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    constexpr std::string_view blanks = " \t\r";
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(blanks)));
    line = line.substr(0, line.find_last_not_of(blanks) + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto at = "line " + std::to_string(number) + ": ";
    if (line.size() > key_bytes_max) return protocols::unexpected(at + "the key is longer than 1024 bytes");
    if (std::any_of(line.begin(), line.end(), [](char c) { return c <= ' ' || c > '~'; }))
      return protocols::unexpected(at +
                                   "a key has no blanks and nothing but ASCII; a comment is a line that begins with #");
    if (out.keys_.size() == keys_max) return protocols::unexpected(at + "more than 10000 keys");
    out.keys_.emplace_back(line);
  }
  if (out.keys_.empty()) return protocols::unexpected(std::string("there is no key in it"));
  return out;
}

bool api_keys::admit(std::string_view authorization) const noexcept {
  constexpr std::string_view scheme = "Bearer ";
  if (authorization.size() <= scheme.size() ||
      !http::equal_without_case(authorization.substr(0, scheme.size()), scheme))
    return false;
  auto given = authorization.substr(scheme.size());
  given.remove_prefix(std::min(given.size(), given.find_first_not_of(' ')));
  return has(given);
}

bool api_keys::has(std::string_view given) const noexcept {
  if (given.size() > key_bytes_max) return false;
  bool found = false;
  for (const auto& key : keys_) found = same(given, key) || found; // never ends early
  return found;
}

bool is_direct_host(std::string_view field, std::string_view configured) {
  auto name = field;
  if (name.starts_with('[')) {
    const auto end = name.find(']');
    return end != std::string_view::npos && end > 1 &&
           name.substr(1, end - 1).find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  }
  name = name.substr(0, name.find(':'));
  if (name.empty()) return false;
  // No name ends in a number, so that this is an address.
  const bool address = name.find_first_not_of("0123456789.") == std::string_view::npos;
  return address || http::equal_without_case(name, "localhost") || http::equal_without_case(name, configured);
}

http_gate::http_gate(http::handler next, gate_options options) : next_(std::move(next)), options_(std::move(options)) {
  if (options_.clock) log_ = std::make_shared<access_log>(options_.log, options_.clock);
  if (options_.metrics == nullptr) return;
  refused_ = &options_.metrics->add_counter_family(
      "godwit_http_refused_total",
      "Requests that were refused for their key, their Host field or the encoding of their body.", {"reason"});
  for (const auto* reason : {"key", "host", "encoding"})
    (void)refused_->with({reason}); // at 0 from the start, or a rate would miss the first one
}

void http_gate::set_keys(std::shared_ptr<const api_keys> keys) {
  const std::lock_guard lock(mutex_);
  keys_.swap(keys);
}

std::shared_ptr<const api_keys> http_gate::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

std::string http_gate::allowed_origin(const http::request& request) const {
  const auto origin = request.fields.find("Origin");
  if (!origin) return {};
  if (request.target.starts_with("/debug")) return {};
  for (const auto& allowed : options_.cors_origins)
    if (allowed == "*" || allowed == *origin) return allowed;
  return {};
}

void http_gate::share(const http::request& head, http::headers& of_answer) const {
  if (!options_.cors_origins.empty()) share_with(of_answer, allowed_origin(head));
}

void http_gate::refuse(http::exchange& exchange, const char* reason, http::response answer) {
  if (refused_ != nullptr) refused_->with({reason}).increment();
  exchange.respond(std::move(answer));
}

std::optional<http::response> http_gate::refuse_head(const http::request& head) {
  if (auto refused = without_key(head)) return refused;
  return encoded(head);
}

void http_gate::rejected(const std::string& peer, const http::request* head, const http::response& answer) const {
  if (log_) log_->refused(peer, head, answer);
}

std::optional<http::response> http_gate::without_key(const http::request& head) {
  const auto wanted = keys();
  if (!wanted || is_open(head.target)) return std::nullopt;
  const auto field = head.fields.find("Authorization"), bare = head.fields.find("x-api-key");
  if ((field && wanted->admit(*field)) || (bare && wanted->has(*bare))) return std::nullopt;
  const bool given = field || bare;
  auto answer = to_response(
      openai::unauthorised(given ? "the API key is wrong; send one that the server knows as \"Authorization: Bearer "
                                   "KEY\" or \"x-api-key: KEY\""
                                 : "an API key is missing; send it as \"Authorization: Bearer KEY\" or \"x-api-key: "
                                   "KEY\""),
      api_of(head));
  answer.fields.add("WWW-Authenticate", "Bearer");
  share(head, answer.fields);
  if (refused_ != nullptr) refused_->with({"key"}).increment();
  return answer;
}

std::optional<http::response> http_gate::encoded(const http::request& head) {
  const auto encoding = head.fields.find("Content-Encoding");
  const bool plain = !encoding || encoding->empty() || http::equal_without_case(*encoding, "identity");
  if (plain && head.fields.count("Content-Encoding") <= 1) return std::nullopt;
  openai::api_error error;
  error.status = 415;
  error.message = "a body with Content-Encoding is not read; send it as it is";
  auto answer = to_response(error, api_of(head));
  answer.fields.add("Accept-Encoding", "identity");
  share(head, answer.fields);
  if (refused_ != nullptr) refused_->with({"encoding"}).increment();
  return answer;
}

void http_gate::handle(http::request request, std::shared_ptr<http::exchange> exchange) {
  if (log_) exchange = log_->watch(request, std::move(exchange));
  if (!options_.cors_origins.empty()) {
    auto origin = allowed_origin(request);
    const bool allowed = !origin.empty();
    exchange = std::make_shared<shared_answer>(std::move(exchange), std::move(origin));
    if (allowed && request.method == "OPTIONS" && request.fields.contains("Access-Control-Request-Method"))
      return exchange->respond(preflight(request));
  }
  if (auto answer = without_key(request)) return exchange->respond(*std::move(answer));
  if (request.target.starts_with("/debug")) {
    const auto host = request.fields.find("Host");
    if (!host || !is_direct_host(*host, options_.host)) {
      http::response answer;
      answer.status = 403;
      answer.content_type = "text/plain";
      answer.body = "Ask for this page by the server's address or as localhost.\n";
      answer.error = "its Host field is neither an address nor localhost";
      return refuse(*exchange, "host", std::move(answer));
    }
  }
  next_(std::move(request), std::move(exchange));
}

} // namespace godwit::actors
