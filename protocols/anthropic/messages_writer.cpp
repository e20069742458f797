#include <godwit/protocols/anthropic/messages_writer.hpp>

#include "openai/call_reader.hpp"

#include <godwit/protocols/anthropic/error.hpp>
#include <godwit/protocols/openai/json_text.hpp>
#include <godwit/protocols/openai/sse.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::protocols::anthropic {

namespace {

using openai::json_string;

/// As JSON: `{}` where the model broke off within them.
std::string_view whole_object(const std::string& arguments) {
  openai::call_reader reader;
  const bool whole = reader.take(arguments) == arguments.size() && reader.done();
  return whole ? std::string_view(arguments) : std::string_view("{}");
}

} // namespace

messages_writer::messages_writer(form how) : how_(std::move(how)) {}

openai::answer_part messages_writer::begin() {
  openai::usage used;
  used.prompt_tokens = how_.prompt_tokens; // what of it was cached is known in the end
  event("message_start", R"("message":)" + message(used));
  out_ += keep_alive();
  return {std::exchange(out_, {}), false};
}

openai::answer_part messages_writer::add(openai::choice piece, const openai::usage&) {
  for (const auto& step : parts_.take(piece)) {
    if (step.begins) open(step);
    if (!step.text.empty()) grow(step.text);
  }
  finish_reason_ = std::move(piece.finish_reason);
  stop_string_ = std::move(piece.stop_string);
  return {std::exchange(out_, {}), false};
}

openai::answer_part messages_writer::finish(const openai::usage& used) {
  if (blocks_.empty() && !parts_.white().empty()) {
    open({});
    grow(parts_.white());
  }
  if (!how_.stream) return {message(used), false};
  close();
  auto members = R"("delta":{"container":null,)" + stop() + R"(},"usage":)" + usage_of(used);
  if (how_.manages_context) members += ',' + context_management();
  event("message_delta", members);
  event("message_stop", {});
  return {std::exchange(out_, {}), false};
}

openai::answer_part messages_writer::fail(const openai::api_error& error) {
  return {openai::sse_event("error", error_object(error, how_.head.id)), false};
}

std::string messages_writer::refusal(const openai::api_error& error) const { return error_object(error, how_.head.id); }

std::string messages_writer::keep_alive() const { return openai::sse_event("ping", R"({"type":"ping"})"); }

std::size_t messages_writer::entries_left() const noexcept {
  std::size_t entries = 0;
  for (const auto& one : blocks_) entries += one.text.size() / 16;
  return entries;
}

void messages_writer::open(const openai::turn_parts::step& begin) {
  close();
  calls_ = calls_ || begin.what == kind::call;
  blocks_.push_back({begin.what, {}, begin.id, begin.name});
  if (!how_.stream) return;
  std::string members = R"("index":)" + std::to_string(blocks_.size() - 1) + R"(,"content_block":)";
  append_block(members, blocks_.back());
  event("content_block_start", members);
}

void messages_writer::grow(const std::string& text) {
  auto& one = blocks_.back();
  if (one.what == kind::thought && !how_.tells_thoughts) return;
  if (!how_.stream) return static_cast<void>(one.text += text);
  static constexpr std::array<std::string_view, 3> deltas{R"("thinking_delta","thinking":)", R"("text_delta","text":)",
                                                          R"("input_json_delta","partial_json":)"};
  event("content_block_delta", R"("index":)" + std::to_string(blocks_.size() - 1) + R"(,"delta":{"type":)" +
                                   std::string(deltas[static_cast<std::size_t>(one.what)]) + json_string(text) + '}');
}

void messages_writer::close() {
  if (blocks_.empty() || !how_.stream) return;
  const auto index = R"("index":)" + std::to_string(blocks_.size() - 1);
  if (blocks_.back().what == kind::thought)
    event("content_block_delta", index + R"(,"delta":{"type":"signature_delta","signature":""})");
  event("content_block_stop", index);
}

void messages_writer::event(std::string_view type, std::string_view members) {
  auto data = R"({"type":)" + json_string(type);
  if (!members.empty()) data += ',';
  data += members;
  out_ += openai::sse_event(type, data + '}');
}

void messages_writer::append_block(std::string& out, const block& of) {
  switch (of.what) {
  case kind::thought:
    out += R"({"type":"thinking","thinking":)" + json_string(of.text) + R"(,"signature":""})";
    return;
  case kind::text:
    out += R"({"type":"text","text":)" + json_string(of.text) + R"(,"citations":null})";
    return;
  case kind::call:
    out += R"({"type":"tool_use","id":)" + json_string(of.id) + R"(,"name":)" + json_string(of.name) + R"(,"input":)";
    out += whole_object(of.text);
    out += R"(,"caller":{"type":"direct"}})";
  }
}

std::string messages_writer::stop() const {
  std::string reason = "null";
  if (stop_string_)
    reason = R"("stop_sequence")";
  else if (finish_reason_ == "length")
    reason = how_.context_is_less ? R"("model_context_window_exceeded")" : R"("max_tokens")";
  else if (!finish_reason_.empty())
    reason = calls_ ? R"("tool_use")" : R"("end_turn")";
  return R"("stop_reason":)" + reason + R"(,"stop_sequence":)" + (stop_string_ ? json_string(*stop_string_) : "null") +
         R"(,"stop_details":null)";
}

/// What was in the cache is no input to Anthropic's clients.
std::string messages_writer::usage_of(const openai::usage& used) {
  const auto cached = std::min(used.cached_tokens, used.prompt_tokens);
  std::string out = R"({"input_tokens":)" + std::to_string(used.prompt_tokens - cached);
  out += R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":)" + std::to_string(cached);
  out += R"(,"output_tokens":)" + std::to_string(used.completion_tokens) + R"(,"output_tokens_details":)";
  out += used.reasoning_tokens ? R"({"thinking_tokens":)" + std::to_string(*used.reasoning_tokens) + '}' : "null";
  return out + R"(,"cache_creation":null,"server_tool_use":null,"service_tier":"standard"})";
}

std::string messages_writer::message(const openai::usage& used) const {
  std::string out = R"({"id":)" + json_string(how_.head.id) + R"(,"type":"message","role":"assistant","model":)";
  out += json_string(how_.head.model) + R"(,"content":[)";
  for (const auto& one : blocks_) {
    if (&one != blocks_.data()) out += ',';
    append_block(out, one);
  }
  out += "]," + stop() + R"(,"container":null,"diagnostics":null,)";
  if (how_.manages_context) out += context_management() + ',';
  return out + R"("usage":)" + usage_of(used) + '}';
}

/// Nothing of the conversation was cleared.
std::string messages_writer::context_management() { return R"("context_management":{"applied_edits":[]})"; }

std::string count_object(std::uint64_t input_tokens, bool manages_context) {
  const auto count = std::to_string(input_tokens);
  std::string out = R"({"input_tokens":)" + count;
  if (manages_context) out += R"(,"context_management":{"original_input_tokens":)" + count + '}';
  return out + '}';
}

} // namespace godwit::protocols::anthropic
