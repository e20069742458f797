#include <godwit/protocols/anthropic/error.hpp>

#include <godwit/protocols/openai/json_text.hpp>

namespace godwit::protocols::anthropic {

namespace {

std::string message_of(const openai::api_error& error) {
  const bool names_it = error.param.empty() || error.message.find("'" + error.param + "'") != std::string::npos;
  auto out = names_it ? error.message : error.param + ": " + error.message;
  // The words by which Claude Code knows that it has to make its conversation shorter.
  if (error.code == "context_length_exceeded") out.insert(0, "prompt is too long: ");
  return out;
}

} // namespace

std::string_view error_type(int status) noexcept {
  switch (status) {
  case 401:
    return "authentication_error";
  case 403:
    return "permission_error";
  case 404:
    return "not_found_error";
  case 413:
  case 431:
    return "request_too_large";
  case 429:
    return "rate_limit_error";
  case 503:
    return "overloaded_error";
  case 408:
  case 504:
    return "timeout_error";
  default:
    return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string error_object(const openai::api_error& error, std::string_view request_id) {
  std::string out = R"({"type":"error","error":{"type":)";
  openai::append_json_string(out, error_type(error.status));
  out += R"(,"message":)";
  openai::append_json_string(out, message_of(error));
  if (error.code.starts_with("thread_")) out += R"(,"details":{"error_code":)" + openai::json_string(error.code) + '}';
  out += R"(},"request_id":)";
  if (request_id.empty())
    out += "null";
  else
    openai::append_json_string(out, request_id);
  return out + '}';
}

} // namespace godwit::protocols::anthropic
