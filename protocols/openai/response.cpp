#include <godwit/protocols/openai/response.hpp>

#include "openai/json_parts.hpp"

#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/openai/json_text.hpp>

#include <utility>

namespace godwit::protocols::openai {

namespace {

void append_head(std::string& out, const response_head& head, std::string_view object) {
  out += R"({"id":)";
  append_json_string(out, head.id);
  out += R"(,"object":)";
  append_json_string(out, object);
  out += R"(,"created":)";
  append_integer(out, head.created_s);
  out += R"(,"model":)";
  append_json_string(out, head.model);
}

void append_usage(std::string& out, const usage& used) {
  out += R"({"prompt_tokens":)";
  append_integer(out, used.prompt_tokens);
  out += R"(,"completion_tokens":)";
  append_integer(out, used.completion_tokens);
  out += R"(,"total_tokens":)";
  append_integer(out, std::uint64_t{used.prompt_tokens} + used.completion_tokens);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_integer(out, used.cached_tokens);
  out += '}';
  std::string details;
  const auto detail = [&details](std::string_view name, const std::optional<std::uint32_t>& tokens) {
    if (!tokens) return;
    details += details.empty() ? R"(,"completion_tokens_details":{)" : ",";
    append_json_string(details, name);
    details += ':';
    append_integer(details, *tokens);
  };
  detail("reasoning_tokens", used.reasoning_tokens);
  detail("accepted_prediction_tokens", used.accepted_prediction_tokens);
  detail("rejected_prediction_tokens", used.rejected_prediction_tokens);
  if (!details.empty()) out += details + '}';
  out += '}';
}

/// {"token", "logprob", "bytes" ...: the object stays open.
void append_chat_token(std::string& out, const token_text& token) {
  out += R"({"token":)";
  append_json_string(out, token.bytes);
  out += R"(,"logprob":)";
  append_json_number(out, token.logprob);
  out += R"(,"bytes":)";
  append_list(out, token.bytes,
              [&](char byte) { append_integer(out, static_cast<unsigned>(static_cast<unsigned char>(byte))); });
}

void append_chat_logprobs(std::string& out, const std::vector<token_choice>& tokens) {
  out += R"({"content":)";
  append_tokens(out, tokens);
  out += R"(,"refusal":null})";
}

/// A token as a completion names it: its text, or `bytes:\xc3` where it is no whole UTF-8 (as OpenAI does), since all
/// such tokens would have one name.
std::string token_name(const token_text& token) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD", digits = "0123456789abcdef";
  const auto replacements = [&](std::string_view text) {
    std::size_t count = 0;
    for (auto at = text.find(replacement); at != text.npos; at = text.find(replacement, at + 1)) ++count;
    return count;
  };
  auto name = json_string(token.bytes);
  if (replacements(name) == replacements(token.bytes)) return name;
  std::string bytes = "bytes:";
  for (const char byte : token.bytes) {
    bytes += "\\x";
    bytes += digits[static_cast<unsigned char>(byte) >> 4U];
    bytes += digits[static_cast<unsigned char>(byte) & 15U];
  }
  return json_string(bytes);
}

void append_completion_logprobs(std::string& out, const std::vector<token_choice>& tokens) {
  out += R"({"tokens":)";
  append_list(out, tokens, [&](const token_choice& token) { out += token_name(token.chosen); });
  out += R"(,"token_logprobs":)";
  append_list(out, tokens, [&](const token_choice& token) {
    if (token.first)
      out += "null";
    else
      append_json_number(out, token.chosen.logprob);
  });
  out += R"(,"top_logprobs":)";
  append_list(out, tokens, [&](const token_choice& token) {
    if (token.first) {
      out += "null";
      return;
    }
    // The chosen token is among them, if need be in addition (OpenAI: "up to logprobs + 1 elements"). No key twice.
    // Of several tokens with one text the chosen one counts, else the most probable.
    std::vector<std::string> keys;
    const auto chosen = token_name(token.chosen);
    const auto add = [&](const token_text& entry) {
      auto key = token_name(entry);
      for (const auto& known : keys)
        if (known == key) return;
      out += keys.empty() ? "" : ",";
      out += key + ':';
      append_json_number(out, key == chosen ? token.chosen.logprob : entry.logprob);
      keys.push_back(std::move(key));
    };
    out += '{';
    for (const auto& other : token.top) add(other);
    add(token.chosen);
    out += '}';
  });
  out += R"(,"text_offset":)";
  append_list(out, tokens, [&](const token_choice& token) { append_integer(out, token.text_offset); });
  out += '}';
}

/// logprobs, finish_reason, stop_reason; closes the choice.
void append_choice_end(std::string& out, const choice& of, bool chat) {
  out += R"(,"logprobs":)";
  if (!of.logprobs)
    out += "null";
  else if (chat)
    append_chat_logprobs(out, *of.logprobs);
  else
    append_completion_logprobs(out, *of.logprobs);
  out += R"(,"finish_reason":)";
  if (of.finish_reason.empty())
    out += "null";
  else
    append_json_string(out, of.finish_reason);
  out += R"(,"stop_reason":)";
  if (of.stop_string)
    append_json_string(out, *of.stop_string);
  else if (of.stop_token)
    append_integer(out, *of.stop_token);
  else
    out += "null";
  if (!chat && of.prompt_logprobs) out += R"(,"prompt_logprobs":)" + of.prompt_logprobs();
  out += '}';
}

/// `whole`: as a message has them, without an index; else as a delta, whose id and name come once.
void append_tool_calls(std::string& out, const std::vector<tool_call_delta>& calls, bool whole) {
  out += R"("tool_calls":)";
  append_list(out, calls, [&](const tool_call_delta& call) {
    out += '{';
    if (!whole) out += R"("index":)" + std::to_string(call.index) + ',';
    if (!call.name.empty()) {
      out += R"("id":)";
      append_json_string(out, call.id);
      out += R"(,"type":"function",)";
    }
    out += R"("function":{)";
    if (!call.name.empty()) {
      out += R"("name":)";
      append_json_string(out, call.name);
      out += ',';
    }
    out += R"("arguments":)";
    append_json_string(out, call.arguments);
    out += "}}";
  });
}

void append_index(std::string& out, std::uint32_t index) {
  out += R"({"index":)";
  append_integer(out, index);
}

void append_completion_choice(std::string& out, const choice& of) {
  append_index(out, of.index);
  out += R"(,"text":)";
  append_json_string(out, of.text);
  append_choice_end(out, of, false);
}

constexpr std::string_view chunk_object(chunk_writer::endpoint which) noexcept {
  return which == chunk_writer::endpoint::chat ? "chat.completion.chunk" : "text_completion";
}

} // namespace

void append_tokens(std::string& out, const std::vector<token_choice>& tokens) {
  append_list(out, tokens, [&](const token_choice& token) {
    append_chat_token(out, token.chosen);
    out += R"(,"top_logprobs":)";
    append_list(out, token.top, [&](const token_text& other) {
      append_chat_token(out, other);
      out += '}';
    });
    out += '}';
  });
}

std::string completion_object(const response_head& head, const std::vector<choice>& choices, const usage& used) {
  std::string out;
  append_head(out, head, "text_completion");
  out += R"(,"choices":)";
  append_list(out, choices, [&](const choice& one) { append_completion_choice(out, one); });
  out += R"(,"usage":)";
  append_usage(out, used);
  out += '}';
  return out;
}

std::string chat_object(const response_head& head, const std::vector<choice>& choices, const usage& used) {
  std::string out;
  append_head(out, head, "chat.completion");
  out += R"(,"choices":)";
  append_list(out, choices, [&](const choice& one) {
    append_index(out, one.index);
    out += R"(,"message":{"role":"assistant","content":)";
    if (one.text.empty() && !(one.calls.empty() && one.reasoning.empty()))
      out += "null";
    else
      append_json_string(out, one.text);
    if (!one.reasoning.empty()) {
      out += R"(,"reasoning_content":)";
      append_json_string(out, one.reasoning);
    }
    if (!one.calls.empty()) {
      out += ',';
      append_tool_calls(out, one.calls, true);
    }
    out += R"(,"refusal":null})";
    append_choice_end(out, one, true);
  });
  if (!choices.empty() && choices.front().prompt_logprobs)
    out += R"(,"prompt_logprobs":)" + choices.front().prompt_logprobs();
  out += R"(,"usage":)";
  append_usage(out, used);
  out += '}';
  return out;
}

std::string prompt_logprobs_list(const std::vector<prompt_token>& tokens) {
  std::string out = "[null";
  const auto append = [&](std::int32_t id, const token_text& text, std::size_t rank) {
    out += json_string(std::to_string(id)) + R"(:{"logprob":)";
    append_json_number(out, text.logprob);
    out += R"(,"rank":)" + (rank == 0 ? std::string("null") : std::to_string(rank)) + R"(,"decoded_token":)";
    append_json_string(out, text.bytes);
    out += '}';
  };
  for (const auto& token : tokens) {
    std::size_t rank = 0;
    for (std::size_t i = 0; i < token.top.size(); ++i)
      if (token.top[i].id == token.id) rank = i + 1;
    out += ",{";
    append(token.id, token.text, rank); // the prompt's own first, as vLLM has it
    for (std::size_t i = 0; i < token.top.size(); ++i) {
      if (token.top[i].id == token.id) continue;
      out += ',';
      append(token.top[i].id, token.top[i].text, i + 1);
    }
    out += '}';
  }
  return out + "]";
}

chunk_writer::chunk_writer(endpoint which, response_head head, bool include_usage, bool continuous_usage)
    : endpoint_(which), head_(std::move(head)), include_usage_(include_usage), continuous_usage_(continuous_usage) {}

void chunk_writer::open(std::string& out) const {
  append_head(out, head_, chunk_object(endpoint_));
  out += R"(,"choices":[)";
}

void chunk_writer::close(std::string& out, const usage& so_far) const {
  out += ']';
  if (include_usage_) {
    out += R"(,"usage":)";
    if (continuous_usage_)
      append_usage(out, so_far);
    else
      out += "null";
  }
  out += '}';
}

std::string chunk_writer::first(std::uint32_t index, const usage& so_far) const {
  ensure(endpoint_ == endpoint::chat, "chunk_writer: only a chat names roles");
  std::string out;
  open(out);
  append_index(out, index);
  out += R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})";
  close(out, so_far);
  return out;
}

std::string chunk_writer::delta(const choice& added, const usage& so_far) const {
  std::string out;
  open(out);
  if (endpoint_ == endpoint::chat) {
    append_index(out, added.index);
    out += R"(,"delta":{)";
    const bool reasons = !added.reasoning.empty();
    const bool content = !added.text.empty() || (added.finish_reason.empty() && added.calls.empty() && !reasons);
    if (reasons) {
      out += R"("reasoning_content":)";
      append_json_string(out, added.reasoning);
      if (content || !added.calls.empty()) out += ',';
    }
    if (content) {
      out += R"("content":)";
      append_json_string(out, added.text);
    }
    if (!added.calls.empty()) {
      if (content) out += ',';
      append_tool_calls(out, added.calls, false);
    }
    out += '}';
    append_choice_end(out, added, true);
  } else {
    append_completion_choice(out, added);
  }
  close(out, so_far);
  return out;
}

std::string chunk_writer::last(const usage& used) const {
  std::string out;
  append_head(out, head_, chunk_object(endpoint_));
  out += R"(,"choices":[],"usage":)";
  append_usage(out, used);
  out += '}';
  return out;
}

std::string model_object(const model_card& model) {
  std::string out = R"({"id":)";
  append_json_string(out, model.id);
  out += R"(,"object":"model","created":)";
  append_integer(out, model.created_s);
  out += R"(,"owned_by":)";
  append_json_string(out, model.owned_by);
  out += R"(,"root":)";
  append_json_string(out, model.root.empty() ? model.id : model.root);
  out += R"(,"parent":)";
  if (model.parent.empty())
    out += "null";
  else
    append_json_string(out, model.parent);
  if (model.max_model_len > 0) {
    out += R"(,"max_model_len":)";
    append_integer(out, model.max_model_len);
  }
  out += '}';
  return out;
}

std::string models_object(const std::vector<model_card>& models) {
  std::string out = R"({"object":"list","data":)";
  append_list(out, models, [&](const model_card& model) { out += model_object(model); });
  out += '}';
  return out;
}

} // namespace godwit::protocols::openai
