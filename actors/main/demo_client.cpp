#include "main/demo_client.hpp"

#include <godwit/transport/http/sse_parser.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <utility>

namespace godwit::main {

namespace http = transport::http;
using steady = std::chrono::steady_clock;

namespace {

double milliseconds_between(steady::time_point from, steady::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

std::string body_of(const demo_request& request, const std::string& model) {
  return boost::json::serialize(boost::json::object{
      {"model", model},
      {"messages", boost::json::array{boost::json::object{{"role", "user"}, {"content", request.question}}}},
      {"max_tokens", request.max_tokens},
      {"temperature", request.temperature},
      {"seed", request.seed},
      {"stream", true},
      {"stream_options", {{"include_usage", true}}}});
}

} // namespace

/// What is known of one answer while it streams. Used by one I/O thread.
struct demo_round::stream {
  demo_answer* answer = nullptr;
  http::sse_parser parser;
  steady::time_point last;
  int status = 0;
  std::string error_body;
  bool complete = false;

  /// The text of this event.
  std::string take(const http::sse_event& event) {
    if (event.data == "[DONE]") {
      complete = true;
      return {};
    }
    boost::system::error_code wrong;
    const auto parsed = boost::json::parse(event.data, wrong);
    if (wrong || !parsed.is_object()) {
      answer->error = "an event is not JSON";
      return {};
    }
    const auto& object = parsed.as_object();
    if (const auto* error = object.if_contains("error")) answer->error = boost::json::serialize(*error);
    if (const auto* usage = object.if_contains("usage"); usage != nullptr && usage->is_object())
      count(usage->as_object());
    const auto* choices = object.if_contains("choices");
    if (choices == nullptr || !choices->is_array() || choices->as_array().empty()) return {};
    if (!choices->as_array().front().is_object()) {
      answer->error = "a choice is no object";
      return {};
    }
    const auto& choice = choices->as_array().front().as_object();
    if (const auto* reason = choice.if_contains("finish_reason"); reason != nullptr && reason->is_string())
      answer->finish_reason = std::string(reason->as_string());
    const auto* delta = choice.if_contains("delta");
    const auto* text = delta != nullptr && delta->is_object() ? delta->as_object().if_contains("content") : nullptr;
    return text != nullptr && text->is_string() ? std::string(text->as_string()) : std::string();
  }

  void count(const boost::json::object& usage) {
    boost::system::error_code wrong;
    const auto* tokens = usage.if_contains("completion_tokens");
    if (tokens != nullptr) answer->tokens = tokens->to_number<std::uint32_t>(wrong);
    if (tokens == nullptr || wrong) answer->error = "the usage has no number completion_tokens";
  }

  void time(steady::time_point started) {
    const auto now = steady::now();
    if (answer->first_token_ms == 0) {
      answer->first_token_ms = milliseconds_between(started, now);
    } else {
      answer->gaps_ms.push_back(milliseconds_between(last, now));
      answer->longest_pause_ms = std::max(answer->longest_pause_ms, answer->gaps_ms.back());
    }
    last = now;
  }
};

demo_round::demo_round(std::string url, std::string model, const std::vector<demo_request>& requests,
                       std::function<void(std::size_t, const std::string&)> on_piece)
    : on_piece_(std::move(on_piece)), answers_(requests.size()), started_(steady::now()) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto state = std::make_shared<stream>();
    state->answer = &answers_[i];
    http::client_request request;
    request.method = "POST";
    request.url = url + "/v1/chat/completions";
    request.fields = {{"Content-Type", "application/json"}};
    request.body = body_of(requests[i], model);
    http::client_callbacks callbacks;
    callbacks.on_head = [state](int status, const http::headers&) { state->status = status; };
    callbacks.on_data = [this, state, i](std::string_view bytes) {
      if (state->status != 200) {
        state->error_body.append(bytes.substr(0, 4096));
        return;
      }
      state->parser.feed(bytes, [&](const http::sse_event& event) {
        const auto text = state->take(event);
        if (text.empty()) return;
        state->time(started_);
        state->answer->text += text;
        ++pieces_;
        if (on_piece_) on_piece_(i, text);
      });
    };
    callbacks.on_done = [this, state](std::optional<http::client_error> error) {
      auto& answer = *state->answer;
      answer.total_ms = milliseconds_between(started_, steady::now());
      if (error)
        answer.error = error->message;
      else if (state->status != 200)
        answer.error = "HTTP " + std::to_string(state->status) + ": " + state->error_body;
      else if (!state->complete && answer.error.empty())
        answer.error = "the stream ended without [DONE]";
      end_one();
    };
    (void)client_.send(std::move(request), std::move(callbacks));
  }
}

demo_round::~demo_round() = default;

void demo_round::end_one() {
  const std::lock_guard lock(mutex_);
  if (++ended_ < answers_.size()) return;
  seconds_ = milliseconds_between(started_, steady::now()) / 1000;
  all_ended_.notify_all();
}

bool demo_round::wait_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return all_ended_.wait_for(lock, timeout, [this] { return ended_ == answers_.size(); });
}

} // namespace godwit::main
