#include <godwit/protocols/anthropic/messages_request.hpp>

#include "openai/json_reader.hpp"
#include "openai/parse_common.hpp"
#include "openai/parse_response_format.hpp"
#include "openai/parse_template.hpp"
#include "openai/parse_tools.hpp"
#include "openai/unsupported.hpp"

#include <boost/json/serialize.hpp>

#include <string>
#include <utility>

namespace godwit::protocols::anthropic {

namespace json = boost::json;

using openai::chat_message;
using openai::dialect;
using openai::fail;
using openai::fail_missing;
using openai::fail_type;
using openai::invalid_value;
using openai::json_reader;
using openai::request_defaults;
using openai::request_limits;
using openai::role;
using openai::unsupported;

namespace {

void add_line(std::string& to, const std::string& text) {
  if (!to.empty()) to += '\n';
  to += text;
}

std::string place_in(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

/// `content`, which is a text or blocks: calls `text` for the one, and `block` with each reader and type of the others.
template <class Text, class Block> void read_content(json_reader& from, std::string_view name, Text text, Block block) {
  const auto path = from.path_of(name);
  const auto* value = from.value(name);
  if (value == nullptr) fail_missing(path);
  if (value->is_string()) return text(openai::text_of(*value));
  const auto* list = value->if_array();
  if (list == nullptr) fail_type(path, "a string or an array of blocks", *value);
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto place = place_in(path, i);
    if (!(*list)[i].is_object()) fail_type(place, "an object", (*list)[i]);
    json_reader reader{(*list)[i].get_object(), place};
    const auto type = reader.required_text("type");
    static_cast<void>(reader.object("cache_control")); // prefixes are found again in any case
    block(reader, type);
  }
}

[[noreturn]] void fail_block(const json_reader& block, const std::string& type, std::string_view known) {
  fail(unsupported(block.path_of("type"), "Only blocks of type " + std::string(known) + " are supported here, not '" +
                                              type.substr(0, 64) + "'."));
}

std::string text_block(json_reader& block, openai::common_request& into) {
  auto text = block.required_text("text");
  static_cast<void>(block.array("citations")); // of an earlier answer
  openai::add_unasked(block, into);
  return text;
}

/// A text, or blocks of text, which are joined by line feeds as a chat's parts are.
std::string texts_of(json_reader& from, std::string_view name, openai::common_request& into) {
  std::string out;
  read_content(
      from, name, [&](std::string text) { out = std::move(text); },
      [&](json_reader& block, const std::string& type) {
        if (type != "text") fail_block(block, type, "'text'");
        add_line(out, text_block(block, into));
      });
  return out;
}

/// Claude Code's first words to the system are for whoever writes the bill, and other ones with each request: no prompt
/// would be found again behind them.
std::string without_bill(std::string text) {
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  const auto end = text.find('\n');
  return end == std::string::npos ? std::string() : text.substr(end + 1);
}

/// `messages` as those of a chat: who speaks on goes on with the same message, and what tools said are messages of
/// their own.
class turns {
public:
  turns(const request_limits& limits, openai::template_values& values, messages_request& into)
      : limits_(limits), values_(values), into_(into) {}

  void add(const json::value& value, const std::string& path) {
    if (!value.is_object()) fail_type(path, "an object", value);
    json_reader message{value.get_object(), path};
    const auto who = message.required_text("role");
    if (who == "assistant") return assistant(message); // what some server answered, with fields of its own
    if (who == "user") {
      user(message);
    } else if (who == "system") {
      system(texts_of(message, "content", into_));
    } else {
      const auto place = message.path_of("role");
      fail(invalid_value(place, "'" + place + "' must be 'user', 'assistant' or 'system'."));
    }
    openai::add_unasked(message, into_);
  }

  void system(const std::string& text) {
    if (open(role::system))
      into_.messages.back().content += "\n\n" + text;
    else
      begin(chat_message(role::system, text));
  }

  /// The answer goes on from the assistant's last words, where these are the last.
  void finish() {
    auto& all = into_.messages;
    if (open(role::assistant) && all.back() == chat_message(role::assistant, {})) all.pop_back();
    if (all.empty() || (all.size() == 1 && open(role::system)))
      fail(invalid_value("messages", "'messages' has nothing that could be answered."));
    if (!open(role::assistant)) return;
    if (!all.back().tool_calls.empty())
      fail(invalid_value("messages", "'messages' ends with calls of tools, whose results are to follow."));
    if (all.back().content.empty())
      fail(invalid_value("messages", "'messages' ends with what was thought; an answer goes on from a text."));
    into_.continue_final_message = true;
    into_.add_generation_prompt = false;
  }

private:
  [[nodiscard]] bool open(role who) const { return !into_.messages.empty() && into_.messages.back().who == who; }

  /// Blocks make messages, too: as many as there may be of these.
  void begin(chat_message message) {
    if (into_.messages.size() > limits_.messages_max)
      fail(invalid_value("messages", "'messages' may have up to " + std::to_string(limits_.messages_max) +
                                         " messages and results of tools."));
    into_.messages.push_back(std::move(message));
  }

  void user(json_reader& message) {
    const auto say = [this](std::string text) {
      if (open(role::user))
        add_line(into_.messages.back().content, text);
      else
        begin(chat_message(role::user, std::move(text)));
    };
    read_content(message, "content", say, [&](json_reader& block, const std::string& type) {
      if (type == "tool_result") return result(block);
      if (type != "text") fail_block(block, type, "'text' and 'tool_result'");
      say(text_block(block, into_));
    });
  }

  void result(json_reader& block) {
    chat_message out(role::tool, {});
    out.tool_call_id = block.required_text("tool_use_id");
    if (block.value("content") != nullptr) out.content = texts_of(block, "content", into_);
    // Templates have no word for it.
    if (block.boolean("is_error").value_or(false)) out.content.insert(0, out.content.empty() ? "Error" : "Error: ");
    openai::add_unasked(block, into_);
    begin(std::move(out));
  }

  void assistant(json_reader& message) {
    if (!open(role::assistant)) begin(chat_message(role::assistant, {}));
    auto& turn = into_.messages.back();
    read_content(
        message, "content", [&](const std::string& text) { turn.content += text; },
        [&](json_reader& block, const std::string& type) {
          if (type == "text") {
            turn.content += block.required_text("text");
          } else if (type == "thinking") {
            thought(turn.reasoning, block.required_text("thinking")); // its signature is nobody's here
          } else if (type == "tool_use") {
            if (turn.tool_calls.size() >= limits_.messages_tools_max)
              fail(invalid_value(block.path_of("type"),
                                 "A turn may have up to " + std::to_string(limits_.messages_tools_max) + " calls."));
            turn.tool_calls.push_back(call(block));
          } else if (type != "redacted_thinking") { // only its own server reads it
            fail_block(block, type, "'text', 'thinking', 'redacted_thinking' and 'tool_use'");
          }
        });
    turn.only_calls = !turn.tool_calls.empty() && turn.content.empty();
  }

  static void thought(std::string& to, const std::string& text) {
    if (!text.empty()) add_line(to, text);
  }

  openai::chat_tool_call call(json_reader& block) {
    openai::chat_tool_call out;
    out.id = block.required_text("id");
    out.name = block.required_text("name");
    if (out.name.empty())
      fail(invalid_value(block.path_of("name"), "'" + block.path_of("name") + "' must not be empty."));
    const auto* input = block.object("input");
    if (input == nullptr) fail_missing(block.path_of("input"));
    values_.add(*block.value("input"), block.path_of("input"));
    out.arguments = json::serialize(*input);
    return out;
  }

  const request_limits& limits_;
  openai::template_values& values_;
  messages_request& into_;
};

void parse_conversation(json_reader& body, const request_limits& limits, openai::template_values& values,
                        messages_request& into) {
  turns all(limits, values, into);
  if (body.value("system") != nullptr) {
    std::string said;
    read_content(
        body, "system", [&](std::string text) { said = without_bill(std::move(text)); },
        [&](json_reader& block, const std::string& type) {
          if (type != "text") fail_block(block, type, "'text'");
          auto text = text_block(block, into);
          if (const auto rest = without_bill(text); !rest.empty()) add_line(said, rest);
        });
    if (!said.empty()) all.system(said);
  }
  const auto* list = body.array("messages");
  if (list == nullptr) fail_missing("messages");
  if (list->empty()) fail(invalid_value("messages", "'messages' must not be empty."));
  if (list->size() > limits.messages_max)
    fail(invalid_value("messages", "'messages' may have up to " + std::to_string(limits.messages_max) +
                                       " messages, not " + std::to_string(list->size()) + "."));
  for (std::size_t i = 0; i < list->size(); ++i) all.add((*list)[i], place_in("messages", i));
  all.finish();
}

/// A hint to templates that leave it to the client; how much is thought is the model's affair.
void parse_thinking(json_reader& body, const request_limits& limits, messages_request& into) {
  const auto* given = body.object("thinking");
  if (given == nullptr) return;
  json_reader thinking{*given, "thinking"};
  const auto type = thinking.required_text("type");
  if (type != "enabled" && type != "adaptive" && type != "disabled")
    fail(invalid_value("thinking.type", "'thinking.type' must be 'enabled', 'adaptive' or 'disabled'."));
  const auto budget = thinking.integer("budget_tokens", 1024, openai::tokens_limit);
  if (type == "enabled" && !budget) fail_missing("thinking.budget_tokens");
  const auto display = thinking.text("display").value_or("summarized"); // what is thought is told as it is
  if (display == "omitted")
    into.tells_thoughts = false;
  else if (display != "summarized")
    openai::refuse_unsupported("thinking.display", "'thinking.display' may be 'summarized' or 'omitted'.", limits,
                               into);
  openai::add_unasked(thinking, into);
  for (const auto* name : {"enable_thinking", "thinking"}) // Qwen's and GLM's word, DeepSeek's and Granite's
    openai::add_hint(name, jinja::value(type != "disabled"), into);
}

/// What may be cleared of a conversation that becomes long is kept; what would be written anew is not.
void parse_context_management(json_reader& body, const request_limits& limits, messages_request& into) {
  const auto* given = body.object("context_management");
  if (given == nullptr) return;
  into.manages_context = true;
  json_reader management{*given, "context_management"};
  if (const auto* edits = management.array("edits"))
    for (std::size_t i = 0; i < edits->size(); ++i) {
      const auto place = place_in("context_management.edits", i);
      if (!(*edits)[i].is_object()) fail_type(place, "an object", (*edits)[i]);
      json_reader edit{(*edits)[i].get_object(), place};
      if (!edit.required_text("type").starts_with("clear_"))
        openai::refuse_unsupported(edit.path_of("type"), "Only edits that clear, which have no effect, are taken.",
                                   limits, into);
    }
  openai::add_unasked(management, into);
}

enum class purpose : std::uint8_t { answer, count };

messages_request parse(const json::object& from, purpose what, const request_defaults& defaults,
                       const request_limits& limits) {
  json_reader body{from};
  messages_request request;
  openai::template_values values{limits};
  openai::refuse_unsupported_messages(body, limits, request);
  if (body.value("thread") != nullptr) {
    auto error =
        unsupported("thread", "No messages are stored, so that no thread can go on: send all of it in 'messages'.");
    error.code = "thread_unsupported_request"; // by which clients know that they can do without
    fail(std::move(error));
  }
  static_cast<void>(body.object("cache_control")); // prefixes are found again in any case
  static_cast<void>(body.object("diagnostics"));   // of the cache; there are none
  openai::parse_shared(body, dialect::messages, defaults, limits, request);
  if (request.continuous_usage) fail(unsupported("stream_options.continuous_usage_stats"));
  auto length = body.integer("max_tokens", 0, openai::tokens_limit);
  if (!length && what == purpose::answer) fail_missing("max_tokens");
  request.only_prompt = length == 0; // which is then in the cache
  if (request.only_prompt) length = 1;
  openai::parse_length(body, "max_tokens", length, request);
  openai::parse_output_config(body, limits, request);
  parse_conversation(body, limits, values, request);
  openai::parse_template_variables(body, values, request);
  if (const auto* config = body.object("output_config")) {
    json_reader reader{*config, "output_config"};
    openai::parse_effort(reader, "effort", request);
  }
  parse_thinking(body, limits, request);
  parse_context_management(body, limits, request);
  openai::parse_tools(body, dialect::messages, limits, values, request);
  request.add_special_tokens = false; // templates have them
  openai::add_unasked(body, request);
  return request;
}

expected<messages_request, openai::api_error> parse(std::string_view text, purpose what,
                                                    const request_defaults& defaults, const request_limits& limits) {
  try {
    const auto value = openai::parse_body(text, limits.body_bytes_max, limits.depth_max);
    return parse(value.get_object(), what, defaults, limits);
  } catch (openai::parse_failure& failure) {
    return unexpected{std::move(failure.error)};
  }
}

} // namespace

expected<messages_request, openai::api_error> parse_messages(std::string_view body, const request_defaults& defaults,
                                                             const request_limits& limits) {
  return parse(body, purpose::answer, defaults, limits);
}

expected<messages_request, openai::api_error>
parse_count_tokens(std::string_view body, const request_defaults& defaults, const request_limits& limits) {
  return parse(body, purpose::count, defaults, limits);
}

} // namespace godwit::protocols::anthropic
