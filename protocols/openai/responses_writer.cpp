#include <godwit/protocols/openai/responses_writer.hpp>

#include "openai/call_reader.hpp"
#include "openai/json_parts.hpp"

#include <godwit/protocols/openai/json_text.hpp>
#include <godwit/protocols/openai/sse.hpp>

#include <array>
#include <iterator>
#include <utility>

namespace godwit::protocols::openai {

namespace {

void append_member(std::string& out, std::string_view name, std::string_view text) {
  if (!out.empty() && out.back() != '{') out += ',';
  append_json_string(out, name);
  out += ':';
  append_json_string(out, text);
}

void append_usage_of(std::string& out, const usage& used) {
  out += R"({"input_tokens":)" + std::to_string(used.prompt_tokens);
  out += R"(,"input_tokens_details":{"cached_tokens":)" + std::to_string(used.cached_tokens);
  out += R"(},"output_tokens":)" + std::to_string(used.completion_tokens);
  out += R"(,"output_tokens_details":{"reasoning_tokens":)" + std::to_string(used.reasoning_tokens.value_or(0));
  out += R"(},"total_tokens":)" + std::to_string(std::uint64_t{used.prompt_tokens} + used.completion_tokens) + '}';
}

/// One of those that a response may have failed with.
std::string_view failure_code(const api_error& error) {
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status >= 500 ? "server_error" : "invalid_prompt";
}

} // namespace

responses_writer::responses_writer(form how) : how_(std::move(how)) {}

answer_part responses_writer::begin() {
  out_.repeats = true; // the request's parameters
  const auto response = R"("response":)" + object("in_progress", nullptr, nullptr);
  event("response.created", response);
  event("response.in_progress", response);
  return told();
}

answer_part responses_writer::add(choice piece, const usage&) {
  if (piece.logprobs) keep_logprobs(piece);
  for (const auto& step : parts_.take(piece)) {
    if (step.begins && step.what == kind::call) logprobs_.clear();
    if (step.begins) open(step);
    if (!step.text.empty()) grow(step.text);
  }
  if (piece.finish_reason == "length") cut_ = true;
  return told();
}

answer_part responses_writer::finish(const usage& used) {
  if (items_.empty()) { // an answer has something, be it nothing but white space
    open({});
    if (!parts_.white().empty()) grow(parts_.white());
  }
  if (items_.back().what == kind::text && !logprobs_.empty()) grow({}); // of what was held back, and is not told
  close(cut_ && !whole_call() ? state::incomplete : state::completed);
  const std::string_view status = cut_ ? "incomplete" : "completed";
  if (!how_.stream) return {object(status, &used, nullptr), false};
  event("response." + std::string(status), R"("response":)" + object(status, &used, nullptr));
  out_.repeats = true;
  return told();
}

answer_part responses_writer::fail(const api_error& error) {
  std::string members;
  const auto or_null = [](std::string_view text) { return text.empty() ? std::string("null") : json_string(text); };
  members += R"("code":)" + or_null(error.code.empty() ? error.type : error.code);
  members += R"(,"message":)" + json_string(error.message);
  members += R"(,"param":)" + or_null(error.param);
  event("error", members);
  if (!items_.empty() && items_.back().is == state::in_progress) items_.back().is = state::incomplete;
  event("response.failed", R"("response":)" + object("failed", nullptr, &error));
  out_.repeats = true;
  return told();
}

std::size_t responses_writer::entries_left() const noexcept {
  std::size_t entries = how_.parameters.size() / 16;
  for (const auto& one : items_) {
    const bool open = one.is == state::in_progress && how_.stream;
    entries += (one.text.size() / 16 + one.logprobs.size() * 8) * (open ? times_told - 1 : 1);
  }
  return entries;
}

void responses_writer::keep_logprobs(choice& piece) {
  const bool says = !piece.text.empty();
  // Of markers, and of what stands between them.
  const bool none = !says && (piece.thinks || !piece.reasoning.empty() || !piece.calls.empty() ||
                              parts_.at(kind::thought) || parts_.at(kind::call));
  if (none) {
    logprobs_.clear();
    return;
  }
  std::move(piece.logprobs->begin(), piece.logprobs->end(), std::back_inserter(logprobs_));
}

/// The answer was cut behind a call, which is all there.
bool responses_writer::whole_call() const {
  if (items_.back().what != kind::call) return false;
  call_reader arguments;
  (void)arguments.take(items_.back().text);
  return arguments.done();
}

void responses_writer::open(const turn_parts::step& begin) {
  static constexpr std::array<std::string_view, 3> prefixes{"rs_", "msg_", "fc_"};
  close(state::completed);
  item fresh;
  fresh.what = begin.what;
  fresh.id =
      std::string(prefixes[static_cast<std::size_t>(begin.what)]) + how_.items_id + "_" + std::to_string(items_.size());
  fresh.call_id = begin.id;
  fresh.name = begin.name;
  items_.push_back(std::move(fresh));
  if (!how_.stream) return;
  const auto index = R"("output_index":)" + std::to_string(items_.size() - 1);
  std::string members = index + R"(,"item":)";
  append_item(members, items_.back());
  event("response.output_item.added", members);
  if (begin.what == kind::call) return;
  members = place(true) + R"(,"part":)";
  append_part(members, items_.back());
  event("response.content_part.added", members);
}

void responses_writer::grow(std::string_view text) {
  auto& one = items_.back();
  one.text += text;
  auto fresh = one.what == kind::text ? std::exchange(logprobs_, {}) : std::vector<token_choice>();
  if (how_.stream) {
    auto members = place(one.what != kind::call);
    append_member(members, "delta", text);
    if (one.what == kind::text) {
      members += R"(,"logprobs":)";
      append_tokens(members, fresh);
    }
    static constexpr std::array<std::string_view, 3> types{
        "response.reasoning_text.delta", "response.output_text.delta", "response.function_call_arguments.delta"};
    event(types[static_cast<std::size_t>(one.what)], members);
  }
  std::move(fresh.begin(), fresh.end(), std::back_inserter(one.logprobs));
}

void responses_writer::close(state how) {
  if (items_.empty() || items_.back().is != state::in_progress) return;
  auto& one = items_.back();
  one.is = how;
  if (!how_.stream) return;
  out_.repeats = true;
  std::string members;
  if (one.what == kind::call) {
    members = place(false);
    append_member(members, "name", one.name);
    append_member(members, "arguments", one.text);
    event("response.function_call_arguments.done", members);
  } else {
    members = place(true);
    append_member(members, "text", one.text);
    if (one.what == kind::text) {
      members += R"(,"logprobs":)";
      append_tokens(members, one.logprobs);
    }
    event(one.what == kind::text ? "response.output_text.done" : "response.reasoning_text.done", members);
    members = place(true) + R"(,"part":)";
    append_part(members, one);
    event("response.content_part.done", members);
  }
  members = R"("output_index":)" + std::to_string(items_.size() - 1) + R"(,"item":)";
  append_item(members, one);
  event("response.output_item.done", members);
}

void responses_writer::event(std::string_view type, std::string_view members) {
  std::string data = "{";
  append_member(data, "type", type);
  data += R"(,"sequence_number":)" + std::to_string(events_++) + ',';
  data += members;
  data += '}';
  out_.bytes += sse_event(type, data);
}

std::string responses_writer::place(bool part) const {
  std::string out;
  append_member(out, "item_id", items_.back().id);
  out += R"(,"output_index":)" + std::to_string(items_.size() - 1);
  if (part) out += R"(,"content_index":0)";
  return out;
}

void responses_writer::append_part(std::string& out, const item& of) {
  out += '{';
  append_member(out, "type", of.what == kind::text ? "output_text" : "reasoning_text");
  append_member(out, "text", of.text);
  if (of.what == kind::text) {
    out += R"(,"annotations":[],"logprobs":)";
    append_tokens(out, of.logprobs);
  }
  out += '}';
}

void responses_writer::append_item(std::string& out, const item& of) {
  static constexpr std::array<std::string_view, 3> types{"reasoning", "message", "function_call"};
  static constexpr std::array<std::string_view, 3> states{"in_progress", "completed", "incomplete"};
  out += '{';
  append_member(out, "id", of.id);
  append_member(out, "type", types[static_cast<std::size_t>(of.what)]);
  append_member(out, "status", states[static_cast<std::size_t>(of.is)]);
  if (of.what == kind::call) {
    append_member(out, "call_id", of.call_id);
    append_member(out, "name", of.name);
    append_member(out, "arguments", of.text);
    out += '}';
    return;
  }
  out += of.what == kind::text ? R"(,"role":"assistant","content":[)" : R"(,"summary":[],"content":[)";
  // Its part is told by itself when it is there.
  if (of.is != state::in_progress) append_part(out, of);
  out += "]}";
}

std::string responses_writer::object(std::string_view status, const usage* used, const api_error* error) const {
  std::string out = "{";
  append_member(out, "id", how_.head.id);
  append_member(out, "object", "response");
  out += R"(,"created_at":)" + std::to_string(how_.head.created_s);
  append_member(out, "status", status);
  append_member(out, "model", how_.head.model);
  out += R"(,"error":)";
  if (error != nullptr) {
    std::string about = "{";
    append_member(about, "code", failure_code(*error));
    append_member(about, "message", error->message);
    out += about + '}';
  } else {
    out += "null";
  }
  out += R"(,"incomplete_details":)";
  out += status == "incomplete" ? R"({"reason":"max_output_tokens"})" : "null";
  out += R"(,"output":)";
  append_list(out, items_, [&](const item& one) { append_item(out, one); });
  if (!how_.parameters.empty()) out += ',' + how_.parameters;
  out += R"(,"usage":)";
  if (used != nullptr)
    append_usage_of(out, *used);
  else
    out += "null";
  return out + '}';
}

answer_part responses_writer::told() { return std::exchange(out_, {}); }

} // namespace godwit::protocols::openai
