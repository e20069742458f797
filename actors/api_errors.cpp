#include "api_errors.hpp"

#include <godwit/protocols/anthropic/error.hpp>

#include <string_view>
#include <utility>

namespace godwit::actors {

namespace http = transport::http;

api api_of(const http::request& head) {
  constexpr std::string_view messages = "/v1/messages", models = "/v1/models";
  const auto at = [&head](std::string_view path) {
    const std::string_view target = head.target;
    return target.starts_with(path) && (target.size() == path.size() || target[path.size()] == '/');
  };
  if (at(messages) || (at(models) && head.fields.contains("anthropic-version"))) return api::anthropic;
  return api::openai;
}

void name_answer(http::headers& fields, api whose, const std::string& id) {
  fields.set("X-Request-Id", id);
  if (whose == api::anthropic) fields.set("request-id", id);
}

http::response to_response(const protocols::openai::api_error& error, api whose, const std::string& id) {
  auto out =
      to_response(error, whose == api::anthropic ? protocols::anthropic::error_object(error, id) : to_json(error));
  if (!id.empty()) name_answer(out.fields, whose, id);
  return out;
}

http::response to_response(const protocols::openai::api_error& error, std::string body) {
  http::response out;
  out.status = error.status;
  if (error.retry_after_s != 0) out.fields.add("Retry-After", std::to_string(error.retry_after_s));
  if (!error.allow.empty()) out.fields.add("Allow", error.allow);
  out.body = std::move(body);
  out.error = error.logged.empty() ? error.message : error.logged;
  return out;
}

} // namespace godwit::actors
