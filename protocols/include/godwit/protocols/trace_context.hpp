#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace godwit::protocols {

/// Which trace of a client's own tools a request belongs to: the header `traceparent` of W3C Trace Context.
struct trace_context {
  std::string trace;  ///< 32 lower-case hexadecimal digits
  std::string parent; ///< 16: the span that the request was sent in
  std::uint8_t flags = 0;
  friend bool operator==(const trace_context&, const trace_context&) = default;
};

/// As strict as the specification (section 3.2): what is not exactly so is as if it were not there. Later versions may
/// have more after the four fields.
[[nodiscard]] std::optional<trace_context> parse_traceparent(std::string_view text);

/// `00-TRACE-PARENT-FLAGS`.
[[nodiscard]] std::string to_traceparent(const trace_context& context);

/// 16 digits; all zero is no id, so 0 becomes 1.
[[nodiscard]] std::string trace_digits(std::uint64_t number);

} // namespace godwit::protocols
