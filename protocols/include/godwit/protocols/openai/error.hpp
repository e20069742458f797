#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// OpenAI's HTTP API as godwit speaks it, with vLLM's extensions: what a request means and how an answer is written.
/// Pure: bodies in, structs out, and back. Sessions are transport/http's, requests' lives actors/frontend's.
namespace godwit::protocols::openai {

/// An error as clients of the API see it: an HTTP status and the body {"error": {"message", "type", "param", "code"}}.
struct api_error {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;               ///< empty: null
  std::string code;                ///< empty: null
  std::uint32_t retry_after_s = 0; ///< of a Retry-After header; 0: none
  std::string allow;               ///< of an Allow header; empty: none
  std::string logged;              ///< what logs and traces have of it; empty: the message, which repeats no prompt
  friend bool operator==(const api_error&, const api_error&) = default;
};

/// 400 for a value that is wrong. `param` is its path: "messages[2].content".
[[nodiscard]] api_error invalid_value(std::string param, std::string message);
/// 400 for a parameter that is known but not supported (yet), code "unsupported_parameter".
[[nodiscard]] api_error unsupported(std::string param, std::string message = {});
/// 400 for a field that nobody knows, code "unknown_parameter".
[[nodiscard]] api_error unknown_parameter(std::string_view name);
/// 400, code "context_length_exceeded", with both numbers. `at_least`: it has so many tokens or more, for nobody
/// counted.
[[nodiscard]] api_error context_length_exceeded(std::uint64_t prompt_tokens, std::uint64_t context_length,
                                                std::string param, bool at_least = false);
[[nodiscard]] api_error unauthorised(std::string message);                                     ///< 401
[[nodiscard]] api_error model_not_found(std::string_view model);                               ///< 404
[[nodiscard]] api_error not_found(std::string_view path);                                      ///< 404
[[nodiscard]] api_error method_not_allowed(std::string_view method, std::string_view allowed); ///< 405
[[nodiscard]] api_error body_too_large(std::uint64_t bytes_max);                               ///< 413
[[nodiscard]] api_error rejected(std::string message, std::uint32_t retry_after_s);            ///< 429
[[nodiscard]] api_error overloaded(std::uint32_t retry_after_s);                               ///< 429
[[nodiscard]] api_error internal_error(std::string message);                                   ///< 500
[[nodiscard]] api_error unavailable(std::string message, std::uint32_t retry_after_s = 0);     ///< 503
/// 404 for a path of the API that others serve, code "unsupported_endpoint".
[[nodiscard]] api_error no_such_endpoint(std::string_view path);
/// 404 for the path of an earlier answer, code "not_found".
[[nodiscard]] api_error no_stored_response(std::string_view path);
[[nodiscard]] api_error timed_out(std::string message); ///< 504: the request's own time is over

/// The body.
[[nodiscard]] std::string to_json(const api_error& error);

} // namespace godwit::protocols::openai
