#include "openai/json_value.hpp"
#include "openai/parse_beams.hpp"
#include "openai/parse_common.hpp"
#include "openai/parse_template.hpp"
#include "openai/parse_tools.hpp"
#include "openai/unsupported.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

constexpr std::array<std::pair<std::string_view, role>, 5> roles{{{"system", role::system},
                                                                  {"developer", role::developer},
                                                                  {"user", role::user},
                                                                  {"assistant", role::assistant},
                                                                  {"tool", role::tool}}};

role parse_role(json_reader& message) {
  const auto path = message.path_of("role");
  const auto name = message.required_text("role");
  for (const auto& [known, who] : roles)
    if (known == name) return who;
  if (name == "function") fail(unsupported(path, "The role 'function' is not supported."));
  fail(invalid_value(path, "'" + path + "' must be 'system', 'developer', 'user', 'assistant' or 'tool'."));
}

std::string parse_part(const json::value& value, const std::string& path, role who, common_request& into) {
  if (!value.is_object()) fail_type(path, "an object", value);
  json_reader part{value.get_object(), path};
  const auto type = part.required_text("type");
  const bool refusal = who == role::assistant && type == "refusal"; // as it was answered
  if (type != "text" && !refusal) fail(unsupported(part.path_of("type"), "Only parts of type 'text' are supported."));
  auto text = part.required_text(refusal ? "refusal" : "text");
  if (who != role::assistant) add_unasked(part, into);
  return text;
}

/// A string, or an array of text parts, which are joined by line feeds (as vLLM does for templates that take strings).
std::string parse_content(json_reader& message, role who, common_request& into) {
  const auto path = message.path_of("content");
  const auto* value = message.value("content");
  if (value == nullptr) {
    if (who == role::assistant) return {};
    fail_missing(path);
  }
  if (value->is_string()) return text_of(*value);
  const auto* parts = value->if_array();
  if (parts == nullptr) fail_type(path, "a string or an array of parts", *value);
  std::string joined;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    if (i > 0) joined += '\n';
    joined += parse_part((*parts)[i], path + "[" + std::to_string(i) + "]", who, into);
  }
  return joined;
}

/// OpenAI's "predicted outputs".
std::string parse_prediction(json_reader& body, common_request& into) {
  const auto* given = body.object("prediction");
  if (given == nullptr) return {};
  json_reader prediction{*given, "prediction"};
  const auto type = prediction.text("type");
  if (!type || *type != "content") fail(invalid_value("prediction.type", "'prediction.type' must be 'content'."));
  auto text = parse_content(prediction, role::user, into);
  add_unasked(prediction, into);
  return text;
}

/// What the template gets besides the messages.
void parse_template_fields(json_reader& body, template_values& values, chat_request& into) {
  into.add_generation_prompt = body.boolean("add_generation_prompt").value_or(true);
  into.continue_final_message = body.boolean("continue_final_message").value_or(false);
  if (into.continue_final_message && into.add_generation_prompt)
    fail(invalid_value("continue_final_message", "'continue_final_message' needs 'add_generation_prompt': false."));
  if (const auto* documents = body.array("documents"); documents != nullptr && !documents->empty()) {
    values.add(*body.value("documents"), "documents");
    into.documents = to_template_value(*body.value("documents"));
  }
  parse_template_variables(body, values, into);
  parse_effort(body, "reasoning_effort", into);
  parse_verbosity(body, into);
}

std::vector<chat_message> parse_messages(json_reader& body, const request_limits& limits, template_values& values,
                                         common_request& into) {
  const auto* list = body.array("messages");
  if (list == nullptr) fail_missing("messages");
  if (list->empty()) fail(invalid_value("messages", "'messages' must not be empty."));
  if (list->size() > limits.messages_max)
    fail(invalid_value("messages", "'messages' may have up to " + std::to_string(limits.messages_max) +
                                       " messages, not " + std::to_string(list->size()) + "."));
  std::vector<chat_message> messages;
  messages.reserve(list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto path = "messages[" + std::to_string(i) + "]";
    if (!(*list)[i].is_object()) fail_type(path, "an object", (*list)[i]);
    json_reader reader{(*list)[i].get_object(), path};
    refuse_unsupported_message(reader, limits, into);
    chat_message message;
    message.who = parse_role(reader);
    message.content = parse_content(reader, message.who, into);
    if (const auto type = reader.text("type"); type && *type != "text" && *type != "message") // evaluation harnesses
      fail(unsupported(reader.path_of("type"), "Only messages of type 'message' or 'text' are supported."));
    message.name = reader.text("name").value_or("");
    if (message.who == role::tool) message.tool_call_id = reader.text("tool_call_id").value_or("");
    if (message.who == role::assistant) {
      message.tool_calls = parse_tool_calls(reader, limits, values);
      auto reasoning = reader.text("reasoning_content");
      if (auto newer_name = reader.text("reasoning"); !reasoning) reasoning = std::move(newer_name);
      message.reasoning = reasoning.value_or("");
      auto refusal = reader.text("refusal");
      message.only_calls = !message.tool_calls.empty() && reader.value("content") == nullptr && !refusal;
      if (refusal && message.content.empty()) message.content = *std::move(refusal);
    }
    // An assistant's message is what some server answered, with fields of its own; clients send it back as it is.
    if (message.who != role::assistant) add_unasked(reader, into);
    messages.push_back(std::move(message));
  }
  return messages;
}

} // namespace

std::string_view to_string(role who) noexcept {
  for (const auto& [name, known] : roles)
    if (known == who) return name;
  return "unknown";
}

expected<chat_request, api_error> parse_chat(std::string_view text, const request_defaults& defaults,
                                             const request_limits& limits) {
  try {
    const auto value = parse_body(text, limits.body_bytes_max, limits.depth_max);
    json_reader body{value.get_object()};
    chat_request request;
    template_values values{limits};
    refuse_unsupported_chat(body, limits, request);
    parse_common(body, defaults, limits, request);
    request.messages = parse_messages(body, limits, values, request);
    request.prediction = parse_prediction(body, request);
    parse_template_fields(body, values, request);
    parse_tools(body, dialect::chat, limits, values, request);
    const auto special = body.boolean("add_special_tokens");
    request.says_special_tokens = special.has_value();
    request.add_special_tokens = special.value_or(false);
    const bool logprobs = body.boolean("logprobs").value_or(false);
    const auto top = body.integer("top_logprobs", 0, limits.logprobs_max);
    if (top.value_or(0) > 0 && !logprobs) fail(invalid_value("top_logprobs", "'top_logprobs' needs 'logprobs': true."));
    if (logprobs) request.sampling.logprobs = static_cast<std::int32_t>(top.value_or(0));
    refuse_beside_beams(request, request.choice != tool_choice::none, "tools");
    refuse_beside_beams(request, !request.prediction.empty(), "prediction");
    add_unasked(body, request);
    return request;
  } catch (parse_failure& failure) {
    return unexpected{std::move(failure.error)};
  }
}

} // namespace godwit::protocols::openai
