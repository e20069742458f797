#include <godwit/protocols/openai/chat_template.hpp>

#include "jinja/search.hpp"
#include "openai/json_value.hpp"

#include <boost/json/parse.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols::openai {

namespace {

using jinja::value;

value content_of(std::string bytes) { return value::content(std::move(bytes)); }

void add(std::vector<jinja::dict_entry>& to, const char* name, value held) {
  to.push_back({jinja::text(name, true), std::move(held)});
}

value template_value(const chat_tool_call& call) {
  boost::json::error_code problem;
  boost::json::parse_options options;
  options.max_depth = 64;
  const auto arguments = boost::json::parse({call.arguments.data(), call.arguments.size()}, problem, {}, options);
  std::vector<jinja::dict_entry> function;
  add(function, "name", content_of(call.name));
  add(function, "arguments",
      problem || !arguments.is_object() ? content_of(call.arguments) : to_template_value(arguments));
  std::vector<jinja::dict_entry> out;
  if (!call.id.empty()) add(out, "id", content_of(call.id));
  add(out, "type", value::markup("function"));
  add(out, "function", value::dict(std::move(function)));
  return value::dict(std::move(out));
}

/// A template that has not heard of developers would leave out what they say.
role shown_role(role who, bool knows_developers) {
  return who == role::developer && !knows_developers ? role::system : who;
}

/// What a template is ready for.
struct ways {
  bool knows_developers = false;
  bool knows_none = false;        ///< as the content of who only calls; others would show the word, or fail
  bool knows_thinking = false;    ///< gpt-oss's word for what was thought, which refuses a content beside it
  bool adds_descriptions = false; ///< of tools to its text, and fails where one has none: gpt-oss's
};

/// A message as templates expect it. A role is one of five words, of which we know that they are harmless.
value template_value(const chat_message& message, ways known) {
  std::vector<jinja::dict_entry> out;
  add(out, "role", value::markup(std::string(to_string(shown_role(message.who, known.knows_developers)))));
  const bool thinks = known.knows_thinking && !message.reasoning.empty();
  // Before a call such a template shows either as thought.
  const bool joins = thinks && !message.content.empty() && !message.tool_calls.empty();
  add(out, "content",
      message.only_calls && known.knows_none ? value(jinja::none_t{}) : content_of(joins ? "" : message.content));
  if (!message.name.empty()) add(out, "name", content_of(message.name));
  if (!message.reasoning.empty()) add(out, "reasoning_content", content_of(message.reasoning));
  if (thinks && (joins || message.content.empty()))
    add(out, "thinking", content_of(joins ? message.reasoning + "\n" + message.content : message.reasoning));
  if (!message.tool_call_id.empty()) add(out, "tool_call_id", content_of(message.tool_call_id));
  if (!message.tool_calls.empty()) {
    std::vector<value> calls;
    for (const auto& call : message.tool_calls) calls.push_back(template_value(call));
    add(out, "tool_calls", value(std::move(calls)));
  }
  return value::dict(std::move(out));
}

/// The tools of a request, whose functions get an empty description where they have none.
value described(const value& tools) {
  std::vector<value> out;
  for (const auto& tool : tools.items()) {
    const auto* function = tool.find("function");
    const auto* said = function->find("description");
    if (said != nullptr && !said->is(value::kind::none)) {
      out.push_back(tool);
      continue;
    }
    auto fields = function->entries();
    add(fields, "description", content_of(""));
    auto whole = tool.entries();
    add(whole, "function", value::dict(std::move(fields)));
    out.push_back(value::dict(std::move(whole)));
  }
  return value(std::move(out));
}

/// The whole prompt; `variables` are the tokens that the model's files name.
expected<jinja::text, jinja::error> rendered(const jinja::compiled_template& chosen, jinja::variables variables,
                                             const chat_request& request, const std::vector<chat_message>& told,
                                             ways known, std::int64_t now_s) {
  std::vector<value> messages;
  messages.reserve(told.size());
  for (const auto& message : told) messages.push_back(template_value(message, known));
  variables.insert(variables.end(), request.template_variables.begin(), request.template_variables.end());
  variables.insert(variables.end(), request.template_hints.begin(), request.template_hints.end());
  variables.emplace_back("messages", value(std::move(messages)));
  variables.emplace_back("add_generation_prompt", value(request.add_generation_prompt));
  // As transformers has it: there, and none.
  const auto or_none = [](const value& given) { return given.defined() ? given : value(jinja::none_t{}); };
  const bool describes = known.adds_descriptions && request.tools.defined();
  variables.emplace_back("tools", describes ? described(request.tools) : or_none(request.tools));
  variables.emplace_back("documents", or_none(request.documents));
  jinja::render_options options;
  options.now_s = now_s;
  return chosen.render(variables, options);
}

bool is_late_system(const chat_message& message, const std::vector<chat_message>& in) {
  return message.who == role::system && &message != in.data();
}

/// For templates that know the system in front only: it speaks within the user's turn, between tags that Anthropic's
/// models know, or within a tool's.
std::vector<chat_message> with_users_system(const std::vector<chat_message>& messages) {
  std::vector<chat_message> out;
  for (const auto& message : messages) {
    const bool late = is_late_system(message, messages);
    auto text = late ? "<system-reminder>\n" + message.content + "\n</system-reminder>" : message.content;
    const auto before = out.empty() ? role::system : out.back().who;
    if ((late && before == role::tool) || ((late || message.who == role::user) && before == role::user))
      out.back().content += "\n" + text;
    else if (late)
      out.emplace_back(role::user, std::move(text));
    else
      out.push_back(message);
  }
  return out;
}

api_error refused(const jinja::error& why, const std::string& conversation) {
  auto out = invalid_value(
      conversation,
      why.raised ? why.message : "The model's chat template fails on this conversation: " + to_string(why) + ".");
  out.logged = "the chat template does not take the conversation"; // its own words may repeat what was said
  return out;
}

std::vector<prompt_piece> pieces_of(const jinja::text& text, std::size_t size) {
  std::vector<prompt_piece> out;
  std::size_t from = 0;
  for (const auto& run : text.runs()) {
    if (from >= size) break;
    const auto end = std::min(run.end, size);
    out.push_back({text.bytes().substr(from, end - from), run.markup});
    from = end;
  }
  return out;
}

/// The text with what the template itself wrote made unlike any message, which is UTF-8: a short message must not be
/// found within a marker.
std::string content_of(const jinja::text& text) {
  auto out = text.bytes();
  std::size_t from = 0;
  for (const auto& run : text.runs()) {
    if (run.markup) out.replace(from, run.end - from, run.end - from, '\xff');
    from = run.end;
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white = " \t\r\n";
  const auto begin = text.find_first_not_of(white);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(white) + 1 - begin);
}

/// True where a template leaves out what the system says later than in front: the last of it, for all.
bool leaves_out(const jinja::text& text, const std::vector<chat_message>& messages) {
  const auto last = std::find_if(messages.rbegin(), messages.rend(),
                                 [&](const chat_message& message) { return is_late_system(message, messages); });
  return last != messages.rend() && jinja::find_last(text.bytes(), trimmed(last->content)) == std::string::npos;
}

/// Where the last message's text ends in the prompt; npos where the template changed it.
std::size_t end_of_last(std::string_view prompt, std::string_view last) {
  const auto end_of = [&](std::string_view what) {
    const auto at = jinja::find_last(prompt, what);
    return at == std::string::npos ? at : at + what.size();
  };
  if (const auto end = end_of(last); end != std::string::npos) return end;
  const auto rest = trimmed(last);
  return rest.empty() ? std::string::npos : end_of(rest);
}

} // namespace

std::vector<prompt_piece> chatml_pieces(const std::vector<chat_message>& messages, bool add_generation_prompt) {
  std::vector<prompt_piece> pieces;
  pieces.reserve(messages.size() * 4 + 2);
  for (const auto& message : messages) {
    pieces.push_back({std::string{chatml_start}, true});
    pieces.push_back({std::string{to_string(shown_role(message.who, false))} + "\n" + message.content, false});
    pieces.push_back({std::string{chatml_end}, true});
    pieces.push_back({"\n", false});
  }
  if (add_generation_prompt) {
    pieces.push_back({std::string{chatml_start}, true});
    pieces.push_back({std::string{to_string(role::assistant)} + "\n", false});
  }
  return pieces;
}

expected<chat_template, std::string> chat_template::compile(source from) {
  auto plain = jinja::compiled_template::compile(std::move(from.text));
  if (!plain) return unexpected("the chat template is not understood: " + to_string(plain.error()));
  chat_template out;
  out.calls_ = tool_format_of(plain->source());
  out.compiled_.emplace(compiled{std::move(*plain), std::nullopt, {}});
  if (from.for_tools) {
    auto tools = jinja::compiled_template::compile(*std::move(from.for_tools));
    if (!tools) return unexpected("the chat template 'tool_use' is not understood: " + to_string(tools.error()));
    out.calls_ = tool_format_of(tools->source());
    out.compiled_->for_tools = std::move(*tools);
  }
  for (auto& [name, text] : from.tokens) out.compiled_->tokens.emplace_back(name, value::markup(std::move(text)));
  return out;
}

bool chat_template::writes(std::string_view marker) const {
  if (!compiled_) return marker == chatml_start || marker == chatml_end;
  return compiled_->plain.source().find(marker) != std::string::npos;
}

bool chat_template::shows_tools() const {
  return compiled_ && (compiled_->for_tools || compiled_->plain.reads("tools"));
}

expected<std::vector<prompt_piece>, api_error> chat_template::pieces(const chat_request& request,
                                                                     std::int64_t now_s) const {
  if (request.tools.defined() && !shows_tools())
    return unexpected(unsupported("tools", "The chat template of this model shows no tools."));
  if (request.choice == tool_choice::automatic && calls_ == tool_format::none)
    return unexpected(unsupported("tool_choice", "How this model writes calls of tools is not known; 'tool_choice' may "
                                                 "be 'none', 'required' or a function."));
  if (request.documents.defined() && !(compiled_ && compiled_->plain.reads("documents")))
    return unexpected(unsupported("documents", "The chat template of this model shows no documents."));
  if (!compiled_) {
    for (const auto& message : request.messages)
      if (!message.tool_calls.empty())
        return unexpected(unsupported(request.prompt_field, "The chat template of this model shows no tool calls."));
    if (!request.template_variables.empty())
      return unexpected(unsupported("chat_template_kwargs", "This model has no chat template to hand them to."));
    auto out = chatml_pieces(request.messages, request.add_generation_prompt);
    if (request.continue_final_message) out.resize(out.size() - 2); // the end of the message and of its line
    return out;
  }
  const auto& chosen = request.tools.defined() && compiled_->for_tools ? *compiled_->for_tools : compiled_->plain;
  ways known{chosen.source().find("developer") != std::string::npos, chosen.asks_for_none("content"),
             chosen.source().find("message.thinking") != std::string::npos, calls_ == tool_format::harmony};
  auto text = rendered(chosen, compiled_->tokens, request, request.messages, known, now_s);
  // It may ask in one place and not in another.
  const auto calls_only = [](const chat_message& message) { return message.only_calls; };
  if (!text && !text.error().raised && std::exchange(known.knows_none, false) &&
      std::ranges::any_of(request.messages, calls_only))
    text = rendered(chosen, compiled_->tokens, request, request.messages, known, now_s);
  if (request.system_may_be_users && (text ? leaves_out(*text, request.messages) : text.error().raised))
    text = rendered(chosen, compiled_->tokens, request, with_users_system(request.messages), known, now_s);
  if (!text) return unexpected(refused(text.error(), request.prompt_field));
  auto size = text->size();
  if (request.continue_final_message) {
    size = end_of_last(content_of(*text), request.messages.back().content);
    if (size == std::string::npos)
      return unexpected(invalid_value("continue_final_message",
                                      "The chat template of this model does not show the last message as it is."));
  }
  return pieces_of(*text, size);
}

} // namespace godwit::protocols::openai
