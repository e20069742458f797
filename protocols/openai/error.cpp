#include <godwit/protocols/openai/error.hpp>

#include <godwit/protocols/openai/json_text.hpp>

#include <utility>

namespace godwit::protocols::openai {

namespace {

api_error make(int status, std::string message, std::string type, std::string param = {}, std::string code = {}) {
  api_error error;
  error.status = status;
  error.message = std::move(message);
  error.type = std::move(type);
  error.param = std::move(param);
  error.code = std::move(code);
  return error;
}

constexpr auto invalid = "invalid_request_error";

/// What a client has sent, as far as it helps.
std::string shown(std::string_view text) {
  constexpr std::size_t bytes_max = 256;
  return text.size() <= bytes_max ? std::string(text) : std::string(text.substr(0, bytes_max)) + "...";
}

void append_or_null(std::string& out, std::string_view text) {
  if (text.empty())
    out += "null";
  else
    append_json_string(out, text);
}

} // namespace

api_error invalid_value(std::string param, std::string message) {
  return make(400, std::move(message), invalid, std::move(param));
}

api_error unsupported(std::string param, std::string message) {
  if (message.empty()) message = "'" + param + "' is not supported.";
  return make(400, std::move(message), invalid, std::move(param), "unsupported_parameter");
}

api_error context_length_exceeded(std::uint64_t prompt_tokens, std::uint64_t context_length, std::string param,
                                  bool at_least) {
  return make(400,
              "This model's maximum context length is " + std::to_string(context_length) +
                  " tokens, prompt and answer together. The prompt has " + (at_least ? "at least " : "") +
                  std::to_string(prompt_tokens) + " tokens.",
              invalid, std::move(param), "context_length_exceeded");
}

api_error unauthorised(std::string message) { return make(401, std::move(message), invalid, {}, "invalid_api_key"); }

api_error model_not_found(std::string_view model) {
  return make(404, "The model '" + shown(model) + "' does not exist.", invalid, "model", "model_not_found");
}

api_error not_found(std::string_view path) {
  return make(404, "There is nothing at '" + shown(path) + "'.", invalid, {}, "not_found");
}

api_error method_not_allowed(std::string_view method, std::string_view allowed) {
  auto error = make(405, "'" + std::string{method} + "' is not allowed here, only " + std::string{allowed} + ".",
                    invalid, {}, "method_not_allowed");
  error.allow = allowed;
  return error;
}

api_error body_too_large(std::uint64_t bytes_max) {
  return make(413, "The body is larger than " + std::to_string(bytes_max) + " bytes.", invalid, {}, "body_too_large");
}

api_error overloaded(std::uint32_t retry_after_s) {
  auto error = make(429, "The server is busy and its queues are full. Please try again later.", "rate_limit_error", {},
                    "overloaded");
  error.retry_after_s = retry_after_s;
  return error;
}

api_error rejected(std::string message, std::uint32_t retry_after_s) {
  auto error = make(429, std::move(message), "rate_limit_error", {}, "objectives_not_met");
  error.retry_after_s = retry_after_s;
  return error;
}

api_error internal_error(std::string message) { return make(500, std::move(message), "server_error"); }

api_error unavailable(std::string message, std::uint32_t retry_after_s) {
  auto error = make(503, std::move(message), "server_error", {}, "unavailable");
  error.retry_after_s = retry_after_s;
  return error;
}

api_error unknown_parameter(std::string_view name) {
  std::string shown{name.substr(0, 64)}; // the client's words
  return make(400, "Unknown parameter: '" + shown + "'.", invalid, shown, "unknown_parameter");
}

api_error timed_out(std::string message) {
  return make(504, std::move(message), "timeout_error", "timeout", "timeout");
}

api_error no_such_endpoint(std::string_view path) {
  return make(404, "godwit does not serve '" + std::string{path} + "'; docs/api.md lists what it serves.", invalid, {},
              "unsupported_endpoint");
}

api_error no_stored_response(std::string_view path) {
  return make(404,
              "There is nothing at '" + shown(path) +
                  "': godwit stores no responses, which are told once, in the answer to their request.",
              invalid, {}, "not_found");
}

std::string to_json(const api_error& error) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, error.message);
  out += R"(,"type":)";
  append_json_string(out, error.type);
  out += R"(,"param":)";
  append_or_null(out, error.param);
  out += R"(,"code":)";
  append_or_null(out, error.code);
  out += "}}";
  return out;
}

} // namespace godwit::protocols::openai
