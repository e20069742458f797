#include <godwit/runtime/trace/text.hpp>

#include "log/escape.hpp"

#include <algorithm>

namespace godwit::runtime::trace {

void text_writer::quote(std::string_view text) {
  constexpr std::size_t shown_max = 200;
  auto shown = std::min(text.size(), shown_max);
  const auto goes_on = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  for (int back = 0; back < 3 && shown < text.size() && goes_on(shown); ++back) --shown; // no half character
  std::string quoted = "\"";
  log::append_escaped(quoted, text.substr(0, shown), log::escape::quoted);
  if (shown < text.size()) quoted += "...";
  add(quoted + "\"");
}

} // namespace godwit::runtime::trace
