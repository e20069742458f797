#include "traced_exchange.hpp"

#include <utility>

namespace godwit::actors {

namespace http = transport::http;
namespace trace = runtime::trace;

namespace {

constexpr std::string_view header = "traceparent";
/// Of what clients send; a recording should not grow with it.
constexpr std::size_t text_max = 256;

} // namespace

std::optional<protocols::trace_context> trace_context_of(const http::request& request) {
  if (request.fields.count(header) != 1) return std::nullopt;
  return protocols::parse_traceparent(*request.fields.find(header));
}

request_span::request_span(std::shared_ptr<trace::recorder> recorder, const http::request& request,
                           const protocols::trace_context& answered, ended_function ended)
    : recorder_(std::move(recorder)), ended_function_(std::move(ended)), traceparent_(to_traceparent(answered)),
      began_(recorder_->clock().now()), span_(recorder_->begin("http.request")) {
  known_.target = request.target.substr(0, text_max);
  span_.add("method", request.method.substr(0, text_max));
  span_.add("target", known_.target);
  if (const auto client = trace_context_of(request)) span_.add("traceparent", to_traceparent(*client));
  span_.add("answered", traceparent_);
}

request_span::~request_span() { end("dropped"); }

void request_span::because(const std::function<void()>& happens) {
  std::optional<trace::because_of> cause;
  {
    const std::lock_guard lock(mutex_);
    if (!over_) cause.emplace(span_);
  }
  happens();
}

void request_span::name_answer(const std::string& client_id) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  known_.client_id = client_id.substr(0, text_max);
  span_.add("client_id", known_.client_id);
}

void request_span::accepted(protocols::request_id request) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  span_.about(request.value());
  requests_ += (requests_.empty() ? "" : " ") + std::to_string(request.value());
}

void request_span::status(int code) {
  const std::lock_guard lock(mutex_);
  if (!over_) span_.add("status", std::to_string(code));
}

void request_span::failed(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (!over_) span_.add("error", std::string(why.substr(0, text_max)));
}

void request_span::end(std::string_view outcome) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(over_, true)) return;
    if (!requests_.empty()) span_.add("request", requests_);
    span_.add("outcome", std::string(outcome));
    span_.end();
    known_.outcome = outcome;
    known_.took = recorder_->clock().now() - began_;
  }
  if (ended_function_) ended_function_(known_);
}

traced_exchange::traced_exchange(std::shared_ptr<http::exchange> inner, std::shared_ptr<request_span> span)
    : passing_exchange(std::move(inner)), span_(std::move(span)) {}

// Without an answer it is the server's to say so.
traced_exchange::~traced_exchange() { span_->end(inner().closed() ? "disconnected" : "dropped"); }

void traced_exchange::respond(http::response answer) {
  answer.fields.set(header, span_->traceparent());
  span_->status(answer.status);
  if (!answer.error.empty()) span_->failed(answer.error);
  // Ended first: who has the answer may look for the span at once.
  span_->end(inner().closed() ? "disconnected" : "complete");
  inner().respond(std::move(answer));
}

void traced_exchange::begin_stream(int status, http::headers fields) {
  fields.set(header, span_->traceparent());
  span_->status(status);
  inner().begin_stream(status, std::move(fields));
}

void traced_exchange::finish() {
  span_->end(inner().closed() ? "disconnected" : "complete");
  inner().finish();
}

void traced_exchange::on_close(std::function<void()> gone) {
  inner().on_close([span = span_, gone = std::move(gone)] {
    if (gone) span->because(gone);
    span->end("disconnected");
  });
}

std::shared_ptr<request_span> span_of(const http::exchange& exchange) {
  const auto* traced = dynamic_cast<const traced_exchange*>(&exchange);
  return traced == nullptr ? nullptr : traced->span();
}

} // namespace godwit::actors
