#include "jinja/unicode.hpp"
#include "openai/parse_common.hpp"
#include "openai/parse_response_format.hpp"
#include "openai/parse_template.hpp"
#include "openai/parse_tools.hpp"
#include "openai/unsupported.hpp"

#include <godwit/protocols/openai/json_text.hpp>

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

// As OpenAI has them: what is echoed.
constexpr std::size_t metadata_fields_max = 16, metadata_name_max = 64, metadata_value_max = 512;
constexpr std::size_t label_characters_max = 512;

/// A type of parts, and the field that has their text.
struct part_type {
  std::string_view type;
  std::string_view field = "text";
};
constexpr std::array said_by_clients{part_type{"input_text"}, part_type{"output_text"}};
constexpr std::array said_by_models{part_type{"output_text"}, part_type{"input_text"}, part_type{"refusal", "refusal"}};
constexpr std::array thought_by_models{part_type{"reasoning_text"}};
constexpr std::array summed_up_by_models{part_type{"summary_text"}};

/// Which parts may be there. Those of models have fields that some server told with them, and clients send back.
struct part_types {
  std::span<const part_type> known;
  bool of_clients = false;
};
constexpr part_types clients_parts{said_by_clients, true}, models_parts{said_by_models};

/// Their texts, joined by line feeds as a chat's are.
std::string parse_parts(const json::array& parts, const std::string& path, part_types types, common_request& into) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto place = path + "[" + std::to_string(i) + "]";
    if (!parts[i].is_object()) fail_type(place, "an object", parts[i]);
    json_reader part{parts[i].get_object(), place};
    const auto type = part.required_text("type");
    const auto known = std::ranges::find(types.known, type, &part_type::type);
    if (known == types.known.end())
      fail(unsupported(part.path_of("type"), "Only parts of type '" + std::string(types.known.front().type) +
                                                 "' are supported here, not '" + type + "'."));
    if (i > 0) joined += '\n';
    joined += part.required_text(known->field);
    if (types.of_clients && type == said_by_clients.front().type) add_unasked(part, into);
  }
  return joined;
}

/// A string, or parts.
std::string parse_said(json_reader& item, std::string_view name, part_types types, common_request& into) {
  const auto path = item.path_of(name);
  const auto* value = item.value(name);
  if (value == nullptr) fail_missing(path);
  if (value->is_string()) return text_of(*value);
  if (!value->is_array()) fail_type(path, "a string or an array of parts", *value);
  return parse_parts(value->get_array(), path, types, into);
}

/// The items of `input` as the messages of a chat: what a model thought, said and called in one turn, which are items
/// of their own, is one message there.
class conversation {
public:
  conversation(const request_limits& limits, template_values& values, chat_request& into)
      : limits_(limits), values_(values), into_(into) {}

  void add(const json::value& value, const std::string& path) {
    if (!value.is_object()) fail_type(path, "an object", value);
    json_reader item{value.get_object(), path};
    const auto type = item.text("type").value_or("message");
    static_cast<void>(item.text("id")); // nobody can refer to it
    static_cast<void>(item.text("status"));
    if (type == "message")
      message(item);
    else if (type == "function_call")
      call(item);
    else if (type == "function_call_output")
      output(item);
    else if (type == "reasoning")
      thought(item);
    else if (type == "item_reference")
      fail(unsupported(item.path_of("type"),
                       "No answers are stored, so that no items can be referred to: send the items themselves, "
                       "as clients do where 'store' is false."));
    else
      fail(unsupported(item.path_of("type"), "Only items of type 'message', 'function_call', 'function_call_output' "
                                             "and 'reasoning' are supported."));
  }

private:
  void message(json_reader& item) {
    const auto who = role_of(item);
    const bool models = who == role::assistant;
    auto text = parse_said(item, "content", models ? models_parts : clients_parts, into_);
    if (!models) {
      add_unasked(item, into_);
      thought_.clear(); // nothing was said after it
      into_.messages.emplace_back(who, std::move(text));
      return;
    }
    // Clients send back what some server answered, with fields of its own.
    if (!continues_turn() || into_.messages.back().tool_calls.empty())
      return static_cast<void>(begin_turn().content = std::move(text));
    auto& turn = go_on(); // text behind a call
    turn.content += text;
    turn.only_calls = false;
  }

  role role_of(json_reader& item) {
    const auto name = item.required_text("role");
    for (const auto who : {role::user, role::assistant, role::system, role::developer})
      if (to_string(who) == name) return who;
    const auto path = item.path_of("role");
    fail(invalid_value(path, "'" + path + "' must be 'user', 'assistant', 'system' or 'developer'."));
  }

  void call(json_reader& item) {
    auto called = parse_called(item, limits_, values_);
    called.id = item.required_text("call_id");
    if (!continues_turn()) begin_turn().only_calls = true;
    go_on().tool_calls.push_back(std::move(called));
  }

  void output(json_reader& item) {
    chat_message out(role::tool, parse_said(item, "output", clients_parts, into_));
    out.tool_call_id = item.required_text("call_id"); // some servers tell more of it, which comes back
    thought_.clear();
    into_.messages.push_back(std::move(out));
  }

  /// What was thought, else its summary; what is encrypted only its own server reads.
  void thought(json_reader& item) {
    std::string text;
    if (const auto* parts = item.array("content"))
      text = parse_parts(*parts, item.path_of("content"), {thought_by_models}, into_);
    if (const auto* parts = item.array("summary")) {
      auto summary = parse_parts(*parts, item.path_of("summary"), {summed_up_by_models}, into_);
      if (text.empty()) text = std::move(summary);
    }
    if (!thought_.empty() && !text.empty()) thought_ += '\n';
    thought_ += text;
  }

  [[nodiscard]] bool continues_turn() const {
    return !into_.messages.empty() && into_.messages.back().who == role::assistant;
  }
  /// The turn that is open, with what was thought within it: templates know one thought a turn, and calls that belong
  /// together in one message.
  chat_message& go_on() {
    auto& turn = into_.messages.back();
    if (!thought_.empty() && !turn.reasoning.empty()) turn.reasoning += '\n';
    turn.reasoning += std::exchange(thought_, {});
    return turn;
  }
  chat_message& begin_turn() {
    auto& turn = into_.messages.emplace_back(role::assistant, std::string());
    turn.reasoning = std::exchange(thought_, {});
    return turn;
  }

  const request_limits& limits_;
  template_values& values_;
  chat_request& into_;
  std::string thought_; ///< of the assistant's message that is next
};

/// Templates have one message of the system, in front.
void join_instructions(std::vector<chat_message>& messages) {
  const auto is_system = [](const chat_message& m) { return m.who == role::system || m.who == role::developer; };
  const auto rest = std::find_if_not(messages.begin() + 1, messages.end(), is_system);
  for (auto more = messages.begin() + 1; more != rest; ++more) messages.front().content += "\n\n" + more->content;
  messages.erase(messages.begin() + 1, rest);
}

void parse_input(json_reader& body, const request_limits& limits, template_values& values, chat_request& into) {
  const auto instructions = body.text("instructions");
  if (instructions) into.messages.emplace_back(role::system, *instructions);
  const auto* input = body.value("input");
  if (input == nullptr) fail_missing("input");
  if (input->is_string()) return static_cast<void>(into.messages.emplace_back(role::user, text_of(*input)));
  const auto* items = input->if_array();
  if (items == nullptr) fail_type("input", "a string or an array of items", *input);
  if (items->empty()) fail(invalid_value("input", "'input' must not be empty."));
  if (items->size() > limits.messages_max)
    fail(invalid_value("input", "'input' may have up to " + std::to_string(limits.messages_max) + " items, not " +
                                    std::to_string(items->size()) + "."));
  conversation all(limits, values, into);
  for (std::size_t i = 0; i < items->size(); ++i) all.add((*items)[i], "input[" + std::to_string(i) + "]");
  if (into.messages.size() == (instructions ? 1 : 0)) fail(invalid_value("input", "'input' has no message."));
  if (instructions) join_instructions(into.messages);
}

/// What an answer would need that is not in the request: to leave it out would answer something else.
void refuse_what_is_stored(json_reader& body) {
  for (const auto* name : {"previous_response_id", "conversation", "prompt"})
    if (body.value(name) != nullptr)
      fail(unsupported(name,
                       "Nothing is stored that '" + std::string(name) + "' could name: send all of it in 'input'."));
}

/// Answers repeat them, streams several times.
void bound_repeated(json_reader& body) {
  constexpr std::size_t repeated_bytes_max = std::size_t{1} << 20U;
  for (const auto* name : {"tools", "text"})
    if (const auto* value = body.value(name); value != nullptr && json::serialize(*value).size() > repeated_bytes_max)
      fail(invalid_value(name, "'" + std::string(name) + "' may have up to 1 MiB, since answers repeat it."));
}

/// `include`, `top_logprobs`.
void parse_included(json_reader& body, const request_limits& limits, chat_request& into) {
  constexpr std::string_view logprobs = "message.output_text.logprobs", encrypted = "reasoning.encrypted_content";
  bool tells = false;
  if (const auto* list = body.array("include"))
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto path = "include[" + std::to_string(i) + "]";
      if (!(*list)[i].is_string()) fail_type(path, "a string", (*list)[i]);
      const auto what = text_of((*list)[i]);
      tells = tells || what == logprobs;
      // What was thought is in the answer as it is, for the client to send back.
      if (what != logprobs && what != encrypted)
        refuse_unsupported(path,
                           "'include' may have '" + std::string(logprobs) + "' and '" + std::string(encrypted) + "'.",
                           limits, into);
    }
  into.logprobs_field = "top_logprobs";
  const auto top = body.integer("top_logprobs", 0, limits.logprobs_max).value_or(0);
  if (top > 0 && !tells)
    fail(invalid_value("top_logprobs", "'top_logprobs' needs '" + std::string(logprobs) + "' in 'include'."));
  if (tells) into.sampling.logprobs = static_cast<std::int32_t>(top);
}

void parse_reasoning(json_reader& body, const request_limits& limits, chat_request& into) {
  const auto* given = body.object("reasoning");
  if (given == nullptr) return;
  json_reader reasoning{*given, "reasoning"};
  parse_effort(reasoning, "effort", into);
  for (const auto* name : {"summary", "generate_summary"}) {
    const auto summary = reasoning.text(name);
    if (summary && *summary != "auto") // the best there is: none
      refuse_unsupported(reasoning.path_of(name), "What is thought is told as it is; nobody sums it up.", limits, into);
  }
  add_unasked(reasoning, into);
}

void check_echoed(json_reader& body) {
  for (const auto* name : {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"})
    if (const auto text = body.text(name); text && jinja::count_characters(*text) > label_characters_max)
      fail(invalid_value(name, "'" + std::string(name) + "' may have " + std::to_string(label_characters_max) +
                                   " characters, not " + std::to_string(jinja::count_characters(*text)) + "."));
  const auto* metadata = body.object("metadata");
  if (metadata == nullptr) return;
  if (metadata->size() > metadata_fields_max)
    fail(invalid_value("metadata", "'metadata' may have up to " + std::to_string(metadata_fields_max) +
                                       " fields, not " + std::to_string(metadata->size()) + "."));
  for (const auto& field : *metadata)
    if (jinja::count_characters({field.key().data(), field.key().size()}) > metadata_name_max ||
        jinja::count_characters(text_of(field.value())) > metadata_value_max)
      fail(invalid_value("metadata", "The names in 'metadata' may have " + std::to_string(metadata_name_max) +
                                         " characters, and what they name " + std::to_string(metadata_value_max) +
                                         "."));
}

/// What an answer repeats of its request, as OpenAI's does; of what had no effect what there was instead.
std::string echo(json_reader& body, const responses_request& request) {
  std::string out;
  const auto add = [&out](std::string_view name, std::string_view value) {
    if (!out.empty()) out += ',';
    append_json_string(out, name);
    out += ':';
    out += value;
  };
  const auto given = [&body](std::string_view name, std::string_view otherwise) {
    const auto* value = body.value(name);
    return value == nullptr ? std::string(otherwise) : std::string(json::serialize(*value));
  };
  const auto number = [](float value) {
    std::string text;
    append_json_number(text, value);
    return text;
  };
  const auto member = [&body](std::string_view name, std::string_view of, std::string_view otherwise) {
    const auto* object = body.object(name);
    const auto* value = object == nullptr ? nullptr : object->if_contains({of.data(), of.size()});
    return value == nullptr || value->is_null() ? std::string(otherwise) : std::string(json::serialize(*value));
  };
  add("background", "false");
  add("instructions", given("instructions", "null"));
  add("max_output_tokens", request.has_max_tokens ? std::to_string(request.stop.max_tokens) : "null");
  add("metadata", given("metadata", "{}"));
  add("parallel_tool_calls", request.parallel_tool_calls ? "true" : "false");
  add("previous_response_id", "null");
  for (const auto* label : {"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user"})
    add(label, given(label, "null"));
  add("reasoning", R"({"effort":)" + member("reasoning", "effort", "null") + R"(,"summary":null})");
  add("service_tier", R"("default")");
  add("store", "false"); // it is not, whatever was asked for
  add("temperature", number(request.sampling.temperature));
  add("text", R"({"format":)" + member("text", "format", R"({"type":"text"})") + R"(,"verbosity":)" +
                  member("text", "verbosity", R"("medium")") + "}");
  add("tool_choice", given("tool_choice", R"("auto")"));
  add("tools", given("tools", "[]"));
  add("top_logprobs", std::to_string(std::max(request.sampling.logprobs, 0)));
  add("top_p", number(request.sampling.top_p));
  add("truncation", R"("disabled")");
  return out;
}

} // namespace

expected<responses_request, api_error> parse_responses(std::string_view text, const request_defaults& defaults,
                                                       const request_limits& limits) {
  try {
    const auto value = parse_body(text, limits.body_bytes_max, limits.depth_max);
    json_reader body{value.get_object()};
    responses_request request;
    template_values values{limits};
    refuse_unsupported_responses(body, limits, request);
    refuse_what_is_stored(body);
    bound_repeated(body);
    static_cast<void>(body.object("client_metadata")); // for who counts requests
    parse_shared(body, dialect::responses, defaults, limits, request);
    if (request.continuous_usage) fail(unsupported("stream_options.continuous_usage_stats"));
    check_echoed(body);
    parse_length(body, "max_output_tokens", body.integer("max_output_tokens", 1, tokens_limit), request);
    parse_text_format(body, limits, request);
    parse_input(body, limits, values, request);
    parse_template_variables(body, values, request);
    parse_reasoning(body, limits, request);
    if (const auto* said = body.object("text")) {
      json_reader reader{*said, "text"};
      parse_verbosity(reader, request);
    }
    parse_tools(body, dialect::responses, limits, values, request);
    parse_included(body, limits, request);
    request.add_special_tokens = false; // templates have them
    request.parameters = echo(body, request);
    add_unasked(body, request);
    return request;
  } catch (parse_failure& failure) {
    return unexpected{std::move(failure.error)};
  }
}

} // namespace godwit::protocols::openai
