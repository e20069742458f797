#include "main/bench_answer.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>

namespace godwit::main {

namespace json = boost::json;
using transport::http::client_error_kind;

namespace {

constexpr std::size_t error_body_bytes_max = 4096;
constexpr std::size_t message_bytes_max = 300;

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

const json::value* member(const json::value* in, std::string_view name) {
  const auto* object = in == nullptr ? nullptr : in->if_object();
  return object == nullptr ? nullptr : object->if_contains(json::string_view(name.data(), name.size()));
}

std::string_view text_member(const json::value* in, std::string_view name) {
  const auto* found = member(in, name);
  const auto* text = found == nullptr ? nullptr : found->if_string();
  return text == nullptr ? std::string_view{} : view(*text);
}

std::optional<std::uint32_t> count_member(const json::value* in, std::string_view name) {
  const auto* found = member(in, name);
  const auto* count = found == nullptr ? nullptr : found->if_int64();
  if (count == nullptr || *count < 0 || *count > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*count);
}

const json::value* first_choice(const json::value& event) {
  const auto* choices = member(&event, "choices");
  const auto* list = choices == nullptr ? nullptr : choices->if_array();
  return list == nullptr || list->empty() ? nullptr : &list->front();
}

bool has_text(const json::value* choice) {
  if (!text_member(choice, "text").empty()) return true;
  const auto* delta = member(choice, "delta");
  // What a model thinks has either name, by the server's age.
  return std::ranges::any_of(std::array{"content", "reasoning_content", "reasoning"},
                             [&](const char* name) { return !text_member(delta, name).empty(); });
}

std::string_view kind_of(client_error_kind kind) {
  switch (kind) {
  case client_error_kind::bad_url:
  case client_error_kind::resolve:
  case client_error_kind::connect:
    return "connect";
  case client_error_kind::timeout:
    return "timeout";
  case client_error_kind::closed:
    return "disconnect";
  case client_error_kind::protocol:
    return "protocol";
  case client_error_kind::cancelled:
    return "cancelled";
  }
  return "disconnect";
}

} // namespace

std::string one_line(std::string_view text) {
  auto out = std::string(text.substr(0, message_bytes_max));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  // Not within a UTF-8 character.
  if (text.size() > message_bytes_max) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80U) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0U) out.pop_back();
    out += "...";
  }
  return out;
}

std::string error_text(std::string_view body) {
  auto ec = boost::system::error_code{};
  const auto parsed = json::parse(json::string_view(body.data(), body.size()), ec);
  if (!ec) {
    const auto* error = member(&parsed, "error");
    if (const auto text = text_member(error, "message"); !text.empty()) return one_line(text);
    if (const auto text = text_member(&parsed, "error"); !text.empty()) return one_line(text);
    if (const auto text = text_member(&parsed, "message"); !text.empty()) return one_line(text);
  }
  return body.empty() ? "no message" : one_line(body);
}

void answer_reader::data(std::string_view bytes, std::int64_t now_ns) {
  if (record_.status != 200) {
    body_.append(bytes.substr(0, error_body_bytes_max - std::min(body_.size(), error_body_bytes_max)));
    return;
  }
  const auto fits = events_.feed(bytes, [&](const auto& e) { event(e.data, now_ns); });
  if (!fits) fail("bad_stream", "an event of the stream is larger than 1 MiB");
}

void answer_reader::event(const std::string& data, std::int64_t now_ns) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  auto ec = boost::system::error_code{};
  unsigned char buffer[4096];
  json::monotonic_resource memory(buffer, sizeof buffer);
  const auto parsed = json::parse(data, ec, &memory);
  if (ec) return fail("bad_stream", "an event of the stream is not JSON: " + data);
  if (const auto* error = member(&parsed, "error"); error != nullptr && !error->is_null())
    return fail("error_event", error_text(data));
  const auto* choice = first_choice(parsed);
  if (has_text(choice)) text(now_ns);
  if (const auto reason = text_member(choice, "finish_reason"); !reason.empty())
    record_.finish_reason = one_line(reason);
  const auto* usage = member(&parsed, "usage");
  if (auto count = count_member(usage, "prompt_tokens")) record_.usage_prompt = count;
  if (auto count = count_member(usage, "completion_tokens")) record_.usage_answer = count;
}

void answer_reader::text(std::int64_t now_ns) {
  if (record_.pieces == 0)
    record_.first_text_ns = now_ns;
  else
    record_.gaps_ms.push_back(static_cast<float>(static_cast<double>(now_ns - record_.last_text_ns) * 1e-6));
  record_.last_text_ns = now_ns;
  ++record_.pieces;
}

void answer_reader::fail(std::string kind, std::string_view message) {
  if (!record_.error_kind.empty()) return; // the first one says why
  record_.error_kind = std::move(kind);
  record_.error_message = one_line(message);
}

void answer_reader::end(const std::optional<transport::http::client_error>& error, std::int64_t now_ns) {
  record_.ended_ns = now_ns;
  if (error && error->kind == client_error_kind::cancelled) {
    record_.outcome = bench_outcome::unfinished;
    return;
  }
  if (error)
    fail(std::string(kind_of(error->kind)), error->message);
  else if (record_.status != 200)
    fail("http_" + std::to_string(record_.status), error_text(body_));
  else if (!done_)
    fail("truncated", "the stream ended without [DONE]");
  // A server that answered without any text has answered all the same: its first byte of text never came, its end did.
  if (record_.pieces == 0) record_.first_text_ns = record_.last_text_ns = now_ns;
  record_.outcome = record_.error_kind.empty() ? bench_outcome::answered : bench_outcome::failed;
}

} // namespace godwit::main
