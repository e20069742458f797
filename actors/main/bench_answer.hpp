#pragma once

#include "main/bench_record.hpp"

#include <godwit/transport/http/client.hpp>
#include <godwit/transport/http/sse_parser.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace godwit::main {

/// Reads one streamed answer of an OpenAI-style server into a record: times of its pieces of text, usage, errors.
///
/// A stream is complete only with its "[DONE]": a server that dies may close the connection as if all were well.
class answer_reader {
public:
  /// The record must outlive the reader.
  explicit answer_reader(request_record& record) : record_(record) {}

  void head(int status) { record_.status = status; }
  void data(std::string_view bytes, std::int64_t now_ns);
  /// Settles the outcome.
  void end(const std::optional<transport::http::client_error>& error, std::int64_t now_ns);

private:
  void event(const std::string& data, std::int64_t now_ns);
  void text(std::int64_t now_ns);
  void fail(std::string kind, std::string_view message);

  request_record& record_;
  transport::http::sse_parser events_{1U << 20U};
  std::string body_; ///< of an answer that is no stream, up to a bound
  bool done_ = false;
};

/// {"error": {"message": ...}} in words; otherwise the body's beginning.
[[nodiscard]] std::string error_text(std::string_view body);
/// On one line, without control characters, shortened.
[[nodiscard]] std::string one_line(std::string_view text);

} // namespace godwit::main
