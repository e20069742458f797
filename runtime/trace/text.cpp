#include <godwit/runtime/trace/text.hpp>

namespace godwit::runtime::trace {

void text_writer::quote(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::size_t shown_max = 200;
  std::string quoted = "\"";
  for (const char c : text.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += "\\x";
      quoted += digits[byte >> 4U];
      quoted += digits[byte & 15U];
    } else {
      quoted += c;
    }
  }
  if (text.size() > shown_max) quoted += "...";
  add(quoted + "\"");
}

} // namespace godwit::runtime::trace
