#pragma once

#include "passing_exchange.hpp"

#include <godwit/actors/openai_edge.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/trace_context.hpp>
#include <godwit/runtime/trace/recorder.hpp>
#include <godwit/transport/http/exchange.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::actors {

/// The span `http.request` of one request and its answer. Thread-safe: an answer's parts come from I/O threads and from
/// the front end, and either may see its end.
class request_span {
public:
  using ended_function = std::function<void(const ended_request&)>;
  /// `answered`: the trace and span that the answer names.
  request_span(std::shared_ptr<runtime::trace::recorder> recorder, const transport::http::request& request,
               const protocols::trace_context& answered, ended_function ended);
  /// An answer that nobody ended: `outcome` is `dropped`.
  ~request_span();
  request_span(const request_span&) = delete;
  request_span& operator=(const request_span&) = delete;

  /// What is sent in it has the span as its cause, while that has not ended.
  void because(const std::function<void()>& happens);
  [[nodiscard]] const std::string& traceparent() const noexcept { return traceparent_; }
  void name_answer(const std::string& client_id);
  /// One of its prompts is this model request.
  void accepted(protocols::request_id request);
  void status(int code);
  /// The answer tells of an error after its status.
  void failed(std::string_view why);
  void end(std::string_view outcome);

private:
  std::shared_ptr<runtime::trace::recorder> recorder_;
  ended_function ended_function_;
  std::string traceparent_;
  std::chrono::nanoseconds began_;
  std::mutex mutex_;
  runtime::trace::span span_;
  ended_request known_;
  std::string requests_;
  bool over_ = false;
};

/// An exchange whose answer is watched: it names its trace, and ends the request's span.
class traced_exchange final : public passing_exchange {
public:
  traced_exchange(std::shared_ptr<transport::http::exchange> inner, std::shared_ptr<request_span> span);
  ~traced_exchange() override;
  void respond(transport::http::response answer) override;
  void begin_stream(int status, transport::http::headers fields) override;
  void finish() override;
  void on_close(std::function<void()> gone) override;
  [[nodiscard]] const std::shared_ptr<request_span>& span() const noexcept { return span_; }

private:
  std::shared_ptr<request_span> span_;
};

/// Null where the exchange is not traced.
[[nodiscard]] std::shared_ptr<request_span> span_of(const transport::http::exchange& exchange);

/// The client's `traceparent`, if there is exactly one and it is right.
[[nodiscard]] std::optional<protocols::trace_context> trace_context_of(const transport::http::request& request);

} // namespace godwit::actors
