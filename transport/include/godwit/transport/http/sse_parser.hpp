#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace godwit::transport::http {

struct sse_event {
  std::string type; ///< the `event` field; empty: a plain message
  std::string data; ///< `data` lines joined by newlines
  std::string id;   ///< the last `id` seen in the stream
  friend bool operator==(const sse_event&, const sse_event&) = default;
};

/// Splits a byte stream into server-sent events (WHATWG HTML, 9.2.6), however the bytes are cut.
/// Pure: no socket, no clock.
class sse_parser {
public:
  explicit sse_parser(std::size_t event_bytes_max = 16 * 1024 * 1024) : event_bytes_max_(event_bytes_max) {}

  /// Calls `on_event` for each event completed by these bytes. False, then and for ever, once a line or an event
  /// exceeds the bound. An event that the stream ends within is not an event.
  bool feed(std::string_view bytes, const std::function<void(const sse_event&)>& on_event);

private:
  void end_line(const std::function<void(const sse_event&)>& on_event);
  void field(std::string_view name, std::string_view value);

  std::size_t event_bytes_max_;
  std::string line_;
  sse_event event_;
  bool has_data_ = false;
  bool after_cr_ = false; // a LF right after a CR ends no further line
  bool first_line_ = true;
  bool failed_ = false;
};

} // namespace godwit::transport::http
