#include "openai/parse_response_format.hpp"

#include "openai/parse_common.hpp"
#include "openai/unsupported.hpp"

#include <godwit/protocols/grammar/json_schema.hpp>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

constexpr std::size_t message_bytes_max = 400;
constexpr std::size_t path_bytes_max = 200;

/// What one of the parameters asks for.
struct wish {
  std::string param; ///< where the schema stands
  std::string schema;
};

class wishes {
public:
  explicit wishes(const request_limits& limits) : limits_(limits) {}

  void add(std::string param, std::string schema) {
    if (schema.size() > limits_.schema_bytes_max)
      fail(invalid_value(param, "A schema may have " + std::to_string(limits_.schema_bytes_max) +
                                    " bytes, this one has " + std::to_string(schema.size()) + "."));
    if (found_) fail(invalid_value(param, "'" + found_->param + "' and '" + param + "' cannot both be followed."));
    found_ = wish{std::move(param), std::move(schema)};
  }
  void add_schema(std::string param, const json::value& schema) {
    if (!schema.is_object() && !schema.is_bool()) fail_type(std::move(param), "a JSON Schema", schema);
    add(std::move(param), json::serialize(schema));
  }
  /// A schema as vLLM takes it: an object, or its text.
  void add_json(const std::string& param, const json::value& schema) {
    if (!schema.is_string()) return add_schema(param, schema);
    json::error_code ec;
    json::parse_options options;
    options.max_depth = limits_.depth_max; // as of the body that an object comes in
    const auto parsed = json::parse(schema.get_string(), ec, {}, options);
    if (ec) fail(invalid_value(param, "'" + param + "' is not valid JSON (" + ec.message() + ")."));
    add_schema(param, parsed);
  }
  void add_choice(const std::string& param, const json::value& choice) {
    if (!choice.is_array()) fail_type(param, "an array of strings", choice);
    for (std::size_t i = 0; i < choice.get_array().size(); ++i)
      if (!choice.get_array()[i].is_string())
        fail_type(param + "[" + std::to_string(i) + "]", "a string", choice.get_array()[i]);
    add(param, json::serialize(choice));
  }
  void add_regex(const std::string& param, const json::value& regex) {
    if (!regex.is_string()) fail_type(param, "a string", regex);
    add(param, json::serialize(regex));
  }

  [[nodiscard]] const std::optional<wish>& found() const noexcept { return found_; }

private:
  const request_limits& limits_;
  std::optional<wish> found_;
};

/// The name of a schema, and the schema itself.
void read_schema(json_reader& from, wishes& all) {
  const auto name = from.text("name");
  const auto harmless = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
  };
  if (!name || name->empty() || name->size() > name_bytes_max || !std::ranges::all_of(*name, harmless))
    fail(invalid_value(from.path_of("name"),
                       "'" + from.path_of("name") + "' must be 1 to 64 letters, digits, '-' and '_'."));
  static_cast<void>(from.text("description")); // for people
  static_cast<void>(from.boolean("strict"));   // schemas are always followed
  const auto path = from.path_of("schema");
  const auto* schema = from.value("schema");
  if (schema == nullptr) fail(invalid_value(path, "'" + path + "' is missing."));
  all.add_schema(path, *schema);
}

void read_format(const json::object& format, const std::string& path, dialect words, wishes& all,
                 common_request& into) {
  json_reader reader{format, path};
  const auto type = reader.text("type");
  if (!type) fail(invalid_value(path + ".type", "'" + path + ".type' is missing."));
  if (words == dialect::messages) {
    if (*type != "json_schema") fail(invalid_value(path + ".type", "'" + path + ".type' must be 'json_schema'."));
    const auto* schema = reader.value("schema");
    if (schema == nullptr) fail_missing(path + ".schema");
    all.add_schema(path + ".schema", *schema);
  } else if (*type == "json_object") {
    all.add(path, R"({"type":"object"})");
  } else if (*type == "json_schema" && words == dialect::responses) {
    read_schema(reader, all);
  } else if (*type == "json_schema") {
    const auto* wanted = reader.object("json_schema");
    if (wanted == nullptr) fail(invalid_value(path + ".json_schema", "'" + path + ".json_schema' is missing."));
    json_reader about{*wanted, path + ".json_schema"};
    read_schema(about, all);
    add_unasked(about, into);
  } else if (*type == "structural_tag" || *type == "grammar") {
    fail(unsupported(path + ".type"));
  } else if (*type != "text") {
    fail(invalid_value(path + ".type", "'" + path + ".type' must be 'text', 'json_object' or 'json_schema'."));
  }
  if (words == dialect::chat && reader.value("json_schema") != nullptr && *type != "json_schema")
    fail(invalid_value(path + ".json_schema", "'" + path + ".json_schema' needs the type 'json_schema'."));
  add_unasked(reader, into);
}

void read_structured_outputs(json_reader& body, wishes& all, common_request& into) {
  const auto* wanted = body.object("structured_outputs");
  if (wanted == nullptr) return;
  json_reader reader{*wanted, "structured_outputs"};
  if (const auto* schema = reader.value("json")) all.add_json("structured_outputs.json", *schema);
  if (const auto* choice = reader.value("choice")) all.add_choice("structured_outputs.choice", *choice);
  if (const auto* regex = reader.value("regex")) all.add_regex("structured_outputs.regex", *regex);
  if (reader.boolean("json_object").value_or(false)) all.add("structured_outputs.json_object", R"({"type":"object"})");
  for (const auto* name : {"grammar", "structural_tag", "whitespace_pattern"})
    if (reader.value(name) != nullptr) fail(unsupported(reader.path_of(name)));
  // How vLLM's backends differ; what they ask for holds here anyway.
  for (const auto* name : {"disable_fallback", "disable_any_whitespace", "disable_additional_properties"})
    if (reader.boolean(name).value_or(false)) fail(unsupported(reader.path_of(name)));
  add_unasked(reader, into);
}

/// The other parameters; then what is wished for is compiled.
void follow(wishes& all, json_reader& body, const request_limits& limits, common_request& into) {
  read_structured_outputs(body, all, into);
  if (const auto* schema = body.value("guided_json")) all.add_json("guided_json", *schema);
  if (const auto* choice = body.value("guided_choice")) all.add_choice("guided_choice", *choice);
  if (const auto* regex = body.value("guided_regex")) all.add_regex("guided_regex", *regex);
  const auto& wanted = all.found();
  if (!wanted) return;

  grammar::schema_limits bounds;
  bounds.bytes_max = limits.schema_bytes_max;
  const auto made = grammar::compile_schema(wanted->schema, bounds);
  if (!made) {
    const auto& fault = made.error();
    const auto place = fault.path.substr(0, path_bytes_max);
    auto param = wanted->param;
    if (!place.empty()) param += (place.front() == '[' ? "" : ".") + place;
    fail(invalid_value(std::move(param), "The schema cannot be followed" +
                                             (place.empty() ? "" : " at '" + place + "'") + ": " +
                                             fault.message.substr(0, message_bytes_max) + "."));
  }
  if (into.stop.ignore_eos)
    fail(invalid_value("ignore_eos", "'ignore_eos' and '" + wanted->param +
                                         "' contradict each other: the answer ends where its text is complete."));
  into.sampling.json_schema = wanted->schema;
  into.schema_field = wanted->param;
}

} // namespace

void parse_response_format(json_reader& body, const request_limits& limits, common_request& into) {
  wishes all(limits);
  if (const auto* format = body.object("response_format"))
    read_format(*format, "response_format", dialect::chat, all, into);
  follow(all, body, limits, into);
}

void parse_text_format(json_reader& body, const request_limits& limits, common_request& into) {
  wishes all(limits);
  if (const auto* text = body.object("text")) {
    json_reader reader{*text, "text"};
    if (const auto* format = reader.object("format"))
      read_format(*format, reader.path_of("format"), dialect::responses, all, into);
    static_cast<void>(reader.text("verbosity")); // for the template, whose variables are not known yet
    add_unasked(reader, into);
  }
  follow(all, body, limits, into);
}

void parse_output_config(json_reader& body, const request_limits& limits, common_request& into) {
  wishes all(limits);
  if (const auto* config = body.object("output_config")) {
    json_reader reader{*config, "output_config"};
    if (const auto* format = reader.object("format"))
      read_format(*format, reader.path_of("format"), dialect::messages, all, into);
    static_cast<void>(reader.text("effort")); // parse_effort's
    refuse_unsupported_output_config(reader, limits, into);
    add_unasked(reader, into);
  }
  if (const auto* format = body.object("output_format"))
    read_format(*format, "output_format", dialect::messages, all, into);
  follow(all, body, limits, into);
}

} // namespace godwit::protocols::openai
