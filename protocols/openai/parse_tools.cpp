#include "openai/parse_tools.hpp"

#include "openai/json_value.hpp"
#include "openai/unsupported.hpp"

#include <godwit/protocols/grammar/json_schema.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

constexpr std::array<std::string_view, 2> definition_lists{"$defs", "definitions"};

struct function_tool {
  std::string path; ///< of the object that has the others
  std::string name;
  std::string parameters_path;
  json::value parameters; ///< a JSON Schema
};

std::string parse_name(json_reader& from, dialect words) {
  const std::size_t most = words == dialect::messages ? 128 : name_bytes_max; // as Anthropic has it, and OpenAI
  const auto path = from.path_of("name");
  auto name = from.required_text("name");
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-' ||
           c == '.';
  };
  if (name.empty() || name.size() > most || !std::ranges::all_of(name, fits))
    fail(invalid_value(path, "'" + path + "' must have 1 to " + std::to_string(most) +
                                 " letters, digits and '_', '-', '.'."));
  return name;
}

function_tool parse_function(json_reader& reader, std::string path, dialect words, chat_request& into) {
  const std::string schema = words == dialect::messages ? "input_schema" : "parameters";
  function_tool out;
  out.path = std::move(path);
  out.name = parse_name(reader, words);
  out.parameters_path = out.path + "." + schema;
  static_cast<void>(reader.text("description"));
  if (const auto* parameters = reader.object(schema))
    out.parameters = *parameters;
  else if (words == dialect::messages)
    fail_missing(out.parameters_path);
  else
    out.parameters = json::object{{"type", "object"}, {"properties", json::object{}}};
  static_cast<void>(reader.boolean("strict")); // forced calls always follow the schema, others never
  if (reader.boolean("defer_loading").value_or(false))
    fail(unsupported(reader.path_of("defer_loading"), "All tools are told to the model at once."));
  add_unasked(reader, into);
  return out;
}

constexpr auto only_functions = "Only tools of type 'function' are supported.";

function_tool parse_tool(json_reader& tool, chat_request& into) {
  if (*tool.text("type") != "function") fail(unsupported(tool.path_of("type"), only_functions));
  const auto* function = tool.object("function");
  if (function == nullptr) fail_missing(tool.path_of("function"));
  add_unasked(tool, into);
  json_reader reader{*function, tool.path_of("function")};
  return parse_function(reader, tool.path_of("function"), dialect::chat, into);
}

/// Absent: it is left out, as clients put up with.
std::optional<function_tool> parse_flat_tool(json_reader& tool, const std::string& path, const request_limits& limits,
                                             chat_request& into) {
  if (*tool.text("type") == "function") return parse_function(tool, path, dialect::responses, into);
  refuse_unsupported(tool.path_of("type"), only_functions, limits, into);
  return std::nullopt;
}

/// Anthropic's own tools, which its servers run or its models know by heart, have types.
std::optional<function_tool> parse_custom_tool(json_reader& tool, const std::string& path, const request_limits& limits,
                                               chat_request& into) {
  if (const auto type = tool.text("type").value_or("custom"); type != "custom") {
    refuse_unsupported(tool.path_of("type"),
                       "Only tools of type 'custom', with an 'input_schema', are supported, not '" +
                           type.substr(0, name_bytes_max) + "'.",
                       limits, into);
    return std::nullopt;
  }
  static_cast<void>(tool.object("cache_control"));          // prefixes are found again in any case
  static_cast<void>(tool.boolean("eager_input_streaming")); // there is no other
  if (const auto* callers = tool.array("allowed_callers"))
    if (std::ranges::any_of(*callers, [](const json::value& caller) { return caller != json::value("direct"); }))
      refuse_unsupported(tool.path_of("allowed_callers"), "Only the model calls tools: 'direct'.", limits, into);
  return parse_function(tool, path, dialect::messages, into);
}

/// As a chat would have said it.
json::value nested_custom(const json::object& tool) {
  json::object function;
  for (const auto& [own, chats] :
       {std::pair{"name", "name"}, {"description", "description"}, {"input_schema", "parameters"}})
    if (const auto* value = tool.if_contains(own); value != nullptr && !value->is_null())
      function.emplace(chats, *value);
  return json::object{{"type", "function"}, {"function", std::move(function)}};
}

/// The same, without what says nothing to a model.
json::value nested(const json::object& flat) {
  json::object function;
  for (const auto& field : flat)
    if (field.key() != "type" && field.key() != "strict" && field.key() != "defer_loading" && !field.value().is_null())
      function.emplace(field.key(), field.value());
  return json::object{{"type", "function"}, {"function", std::move(function)}};
}

/// The list as templates have it: `tools` becomes its functions.
json::value parse_list(const json::array& list, dialect words, const request_limits& limits,
                       std::vector<function_tool>& tools, chat_request& into) {
  json::array shown;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto path = "tools[" + std::to_string(i) + "]";
    if (!list[i].is_object()) fail_type(path, "an object", list[i]);
    json_reader tool{list[i].get_object(), path};
    if (words != dialect::messages && !tool.text("type")) fail_missing(tool.path_of("type"));
    auto one = words == dialect::chat        ? parse_tool(tool, into)
               : words == dialect::responses ? parse_flat_tool(tool, path, limits, into)
                                             : parse_custom_tool(tool, path, limits, into);
    if (!one) continue;
    for (const auto& other : tools)
      if (other.name == one->name) fail(invalid_value(one->path + ".name", "Two tools are named '" + one->name + "'."));
    tools.push_back(*std::move(one));
    shown.push_back(words == dialect::chat        ? list[i]
                    : words == dialect::responses ? nested(list[i].get_object())
                                                  : nested_custom(list[i].get_object()));
  }
  return shown;
}

/// Which function has to be called; empty: a tool that is left out, so that none has to be.
std::string parse_named(const json::object& choice, dialect words, const request_limits& limits, chat_request& into) {
  json_reader reader{choice, "tool_choice"};
  if (reader.text("type").value_or("function") != "function") {
    constexpr auto only_functions_chosen = "Only functions can be chosen.";
    if (words == dialect::chat) fail(unsupported("tool_choice.type", only_functions_chosen));
    refuse_unsupported("tool_choice.type", only_functions_chosen, limits, into);
    return {};
  }
  if (words == dialect::responses) {
    auto name = parse_name(reader, words);
    add_unasked(reader, into);
    return name;
  }
  const auto* function = reader.object("function");
  if (function == nullptr) fail_missing("tool_choice.function");
  json_reader named{*function, "tool_choice.function"};
  auto name = parse_name(named, words);
  add_unasked(reader, into);
  add_unasked(named, into);
  return name;
}

/// A choice by its word or its function. False: none that has to be made.
bool read_choice(const json::value& choice, dialect words, const request_limits& limits, chat_request& into) {
  if (choice.is_string()) {
    const auto name = text_of(choice);
    if (name == "none") {
      into.choice = tool_choice::none;
    } else if (name == "required") {
      into.choice = tool_choice::required;
    } else if (name != "auto") { // which is what there is without it
      fail(invalid_value("tool_choice", "'tool_choice' must be 'none', 'auto', 'required' or a function."));
    }
    return true;
  }
  if (!choice.is_object()) fail_type("tool_choice", "a string or an object", choice);
  into.chosen_tool = parse_named(choice.get_object(), words, limits, into);
  if (into.chosen_tool.empty()) return false;
  into.choice = tool_choice::named;
  return true;
}

/// An object for each way to choose, which says, too, whether there may be several calls.
void read_typed_choice(const json::value& choice, chat_request& into) {
  if (!choice.is_object()) fail_type("tool_choice", "an object", choice);
  json_reader reader{choice.get_object(), "tool_choice"};
  const auto type = reader.required_text("type");
  if (type == "none") {
    into.choice = tool_choice::none;
  } else if (type == "any") {
    into.choice = tool_choice::required;
  } else if (type == "tool") {
    into.chosen_tool = parse_name(reader, dialect::messages);
    into.choice = tool_choice::named;
  } else if (type != "auto") {
    fail(invalid_value("tool_choice.type", "'tool_choice.type' must be 'auto', 'any', 'tool' or 'none'."));
  }
  into.parallel_tool_calls = !reader.boolean("disable_parallel_tool_use").value_or(false);
  add_unasked(reader, into);
}

/// `left_out`: of the tools that were given.
void parse_choice(json_reader& body, dialect words, const std::vector<function_tool>& tools, bool left_out,
                  const request_limits& limits, chat_request& into) {
  into.choice = tools.empty() ? tool_choice::none : tool_choice::automatic;
  if (words != dialect::messages) into.parallel_tool_calls = body.boolean("parallel_tool_calls").value_or(true);
  const auto* choice = body.value("tool_choice");
  if (choice == nullptr) return;
  if (words == dialect::messages)
    read_typed_choice(*choice, into);
  else if (!read_choice(*choice, words, limits, into))
    return;
  if (into.choice == tool_choice::named &&
      std::ranges::none_of(tools, [&](const auto& tool) { return tool.name == into.chosen_tool; }))
    fail(invalid_value("tool_choice", "There is no tool '" + into.chosen_tool + "' in 'tools'."));
  if (tools.empty() && left_out && into.choice == tool_choice::required) into.choice = tool_choice::none;
  if (tools.empty() && into.choice != tool_choice::none)
    fail(invalid_value("tool_choice", "'tool_choice' needs 'tools'."));
}

/// True for a pointer to one of the definitions of these parameters.
bool leads_to_own(const json::object& parameters, std::string_view pointer) {
  return std::ranges::any_of(definition_lists, [&](std::string_view list) {
    const auto before = "#/" + std::string(list) + "/";
    if (!pointer.starts_with(before)) return false;
    const auto name = pointer.substr(before.size(), pointer.find('/', before.size()) - before.size());
    if (name.find_first_of("~%") != std::string_view::npos) return true; // escaped
    const auto* own = parameters.if_contains(list);
    return own != nullptr && own->is_object() && own->get_object().contains(name);
  });
}

/// The root of the answer's schema is not the tool's, but its definitions move there.
void check_references(const json::value& in, const std::string& path, const function_tool& tool) {
  if (in.is_array())
    for (const auto& each : in.get_array()) check_references(each, path, tool);
  if (!in.is_object()) return;
  for (const auto& field : in.get_object()) {
    if (field.key() == "$ref" && field.value().is_string()) {
      const auto to = text_of(field.value());
      if (!leads_to_own(tool.parameters.get_object(), to))
        fail(invalid_value(
            path, "The parameters of the tool '" + tool.name + "' refer to '" + std::string(to.substr(0, 128)) +
                      "'; only references to its own '#/$defs/...' and '#/definitions/...' are supported."));
    }
    check_references(field.value(), path, tool);
  }
}

/// What the arguments of a call have to be.
json::object arguments_of(const function_tool& tool, const std::string& path) {
  check_references(tool.parameters, path, tool);
  auto out = tool.parameters.get_object();
  out.erase("nullable"); // arguments are an object
  const auto* type = out.if_contains("type");
  if (type == nullptr) {
    out["type"] = "object";
  } else if (type->is_array() &&
             std::ranges::find(type->get_array(), json::value("object")) != type->get_array().end()) {
    out["type"] = "object";
  } else if (*type != json::value("object")) {
    fail(invalid_value(path, "The parameters of the tool '" + tool.name + "' must have the type 'object'."));
  }
  return out;
}

/// A call of one of the tools, and what its `$ref`s lead to, which has to stand at the root.
struct call_schema {
  json::value call;
  json::object root;
};

/// `field`: what the arguments are called in it.
call_schema schema_of_calls(const std::vector<function_tool>& tools, std::string_view field) {
  json::array calls;
  std::array<json::object, 2> definitions; // "$ref": "#/$defs/x" means the root's
  for (const auto& tool : tools) {
    auto arguments = arguments_of(tool, tool.parameters_path);
    for (std::size_t i = 0; i < definitions.size(); ++i) {
      const auto* own = arguments.if_contains(definition_lists[i]);
      if (own == nullptr || !own->is_object()) continue;
      for (const auto& one : own->get_object())
        if (const auto [place, fresh] = definitions[i].emplace(one.key(), one.value());
            !fresh && place->value() != one.value())
          fail(invalid_value("tools", "Two tools define '" + std::string(definition_lists[i]) + "." +
                                          std::string(one.key()) + "' differently."));
      arguments.erase(definition_lists[i]);
    }
    json::object call;
    call["type"] = "object";
    call["properties"] = json::object{{"name", json::object{{"const", tool.name}}}, {field, std::move(arguments)}};
    call["required"] = json::array{"name", field};
    call["additionalProperties"] = false;
    calls.emplace_back(std::move(call));
  }
  call_schema out;
  for (std::size_t i = 0; i < definitions.size(); ++i)
    if (!definitions[i].empty()) out.root[definition_lists[i]] = std::move(definitions[i]);
  out.call = calls.size() == 1 ? std::move(calls[0]) : json::value(json::object{{"anyOf", std::move(calls)}});
  return out;
}

/// What the answer has to be: the arguments of the named function, or a list of calls.
std::string answer_schema(const std::vector<function_tool>& tools, const chat_request& request) {
  if (request.choice == tool_choice::named) {
    const auto chosen = std::ranges::find_if(tools, [&](const auto& tool) { return tool.name == request.chosen_tool; });
    return json::serialize(arguments_of(*chosen, chosen->parameters_path));
  }
  auto [call, list] = schema_of_calls(tools, "parameters");
  list["type"] = "array";
  list["minItems"] = 1;
  if (!request.parallel_tool_calls) list["maxItems"] = 1;
  list["items"] = std::move(call);
  return json::serialize(list);
}

/// What the answer may be where the model decides whether it calls: what the schema says, or calls as
/// tool_format::hermes has them.
std::string schema_or_calls(const std::vector<function_tool>& tools, const chat_request& request) {
  json::parse_options options;
  options.max_depth = 256; // as deep as the body was, whose bound is below
  json::error_code none;
  auto [call, root] = schema_of_calls(tools, "arguments");
  for (auto& field : call.as_object()) root[field.key()] = std::move(field.value());
  json::array one{"<tool_call>\n", std::move(root), "\n</tool_call>"};
  json::array calling;
  if (request.parallel_tool_calls) {
    one.insert(one.begin(), json::value("\n")); // between two
    calling.emplace_back(std::move(one));
  } else {
    calling = std::move(one);
  }
  const auto& schema = request.sampling.json_schema;
  json::array following;
  following.emplace_back(json::parse({schema.data(), schema.size()}, none, {}, options));
  json::array ways;
  ways.emplace_back(std::move(following));
  ways.emplace_back(std::move(calling));
  return json::serialize(ways);
}

/// Where a request says how its answer is to be.
std::string_view format_of(dialect words) {
  switch (words) {
  case dialect::chat:
    return "response_format";
  case dialect::responses:
    return "text.format";
  case dialect::messages:
    break;
  }
  return "output_config.format";
}

} // namespace

void template_values::add(const json::value& value, const std::string& path) {
  const auto count = values_in(value);
  if (count > left_) fail(invalid_value(path, "'" + path + "' has more values than a chat template is given."));
  left_ -= count;
}

void parse_tools(json_reader& body, dialect words, const request_limits& limits, template_values& values,
                 chat_request& into) {
  std::vector<function_tool> tools;
  const auto* list = body.array("tools");
  if (list != nullptr && !list->empty()) {
    const auto most = words == dialect::messages ? limits.messages_tools_max : limits.tools_max;
    if (list->size() > most)
      fail(invalid_value("tools", "'tools' may have up to " + std::to_string(most) + " tools, not " +
                                      std::to_string(list->size()) + "."));
    values.add(*body.value("tools"), "tools");
    const auto shown = parse_list(*list, words, limits, tools, into);
    if (!tools.empty()) into.tools = to_template_value(shown);
    for (const auto& tool : tools) into.tool_names.push_back(tool.name);
  }
  const auto format = format_of(words);
  parse_choice(body, words, tools, list != nullptr && list->size() > tools.size(), limits, into);
  const bool forced = into.choice == tool_choice::required || into.choice == tool_choice::named;
  const bool bound = into.sampling.constrained();
  const bool open = into.choice == tool_choice::automatic && bound;
  if (!forced && !open) return;
  // What a format says is about the text of an answer, of which a call has none; vLLM's are about all of it.
  const bool as_before = words == dialect::messages && into.schema_field.starts_with("output_format");
  if (bound && !into.schema_field.starts_with(format) && !as_before)
    fail(invalid_value("tool_choice", "'tool_choice' and '" + into.schema_field +
                                          "' ask for different answers; leave out 'tools', or say 'tool_choice': "
                                          "'none'."));
  if (into.stop.ignore_eos)
    fail(invalid_value("ignore_eos", "'ignore_eos' and 'tool_choice' contradict each other: the answer ends where its "
                                     "calls are complete."));
  into.sampling.json_schema = open ? schema_or_calls(tools, into) : answer_schema(tools, into);
  if (into.sampling.json_schema.size() > limits.schema_bytes_max)
    fail(invalid_value("tools", "The schemas of 'tools' (and '" + std::string(format) + "') are larger than " +
                                    std::to_string(limits.schema_bytes_max) + " bytes together."));
  if (auto compiled = grammar::compile_schema(into.sampling.json_schema); !compiled) {
    const auto may_be_called = [&](const function_tool& tool) {
      return into.choice != tool_choice::named || tool.name == into.chosen_tool;
    };
    std::size_t looks = 16;          // each may take as long as all together
    for (const auto& tool : tools) { // which of them
      if (!may_be_called(tool)) continue;
      if (looks-- == 0) break;
      if (auto alone = grammar::compile_schema(json::serialize(tool.parameters)); !alone)
        fail(invalid_value(tool.parameters_path, "The parameters of the tool '" + tool.name +
                                                     "' are not supported: " + alone.error().message));
    }
    fail(invalid_value("tools", "The parameters of 'tools' are not supported: " + compiled.error().message));
  }
}

chat_tool_call parse_called(json_reader& function, const request_limits& limits, template_values& values) {
  chat_tool_call out;
  // What the model wrote, right or wrong, was told to the client, who sends it back for good.
  const auto path = function.path_of("name");
  auto name = function.text("name");
  if (!name) fail_missing(path);
  if (name->empty()) fail(invalid_value(path, "'" + path + "' must not be empty."));
  out.name = *std::move(name);
  out.arguments = function.text("arguments").value_or("{}");
  if (out.arguments.empty()) out.arguments = "{}";
  json::error_code problem;
  json::parse_options options;
  options.max_depth = limits.depth_max;
  const auto arguments = json::parse({out.arguments.data(), out.arguments.size()}, problem, {}, options);
  if (!problem) values.add(arguments, function.path_of("arguments"));
  return out;
}

std::vector<chat_tool_call> parse_tool_calls(json_reader& message, const request_limits& limits,
                                             template_values& values) {
  std::vector<chat_tool_call> out;
  const auto* list = message.array("tool_calls");
  if (list == nullptr) return out;
  const auto path = message.path_of("tool_calls");
  if (list->size() > limits.tools_max) fail(invalid_value(path, "'" + path + "' has too many calls."));
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto place = path + "[" + std::to_string(i) + "]";
    if (!(*list)[i].is_object()) fail_type(place, "an object", (*list)[i]);
    json_reader call{(*list)[i].get_object(), place};
    if (call.text("type").value_or("function") != "function")
      fail(unsupported(call.path_of("type"), "Only calls of type 'function' are supported."));
    const auto* function = call.object("function");
    if (function == nullptr) fail_missing(call.path_of("function"));
    json_reader reader{*function, call.path_of("function")};
    out.push_back(parse_called(reader, limits, values));
    out.back().id = call.text("id").value_or("");
  }
  return out;
}

} // namespace godwit::protocols::openai
