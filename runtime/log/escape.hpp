#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace godwit::runtime::log {

enum class escape : std::uint8_t {
  text,   ///< within a line: \n, \t, \\, \x1b, \u{202e}
  quoted, ///< the same, and \" for a quote
  json,   ///< RFC 8259 string contents
  nothing ///< only what is no UTF-8
};

/// Appends `text` so that it stays on its line, shows what it is and is valid UTF-8: control characters, line and
/// paragraph separators and bidirectional controls are escaped, invalid bytes become U+FFFD.
void append_escaped(std::string& out, std::string_view text, escape how);

} // namespace godwit::runtime::log
