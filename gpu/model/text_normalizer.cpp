#include "model/text_normalizer.hpp"

#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

namespace godwit::gpu::model {

void append_replaced(std::string& out, std::string_view text, std::string_view from, std::string_view to) {
  std::size_t done = 0;
  for (auto found = text.find(from); found != std::string_view::npos; found = text.find(from, done)) {
    out.append(text.substr(done, found - done)).append(to);
    done = found + from.size();
  }
  out.append(text.substr(done));
}

std::size_t space_begin(std::string_view text, std::size_t least, std::size_t end) {
  const auto& table = unicode::all_traits();
  while (end > least) {
    auto start = end - 1;
    while (start > least && (static_cast<std::uint8_t>(text[start]) & 0xC0U) == 0x80U) --start;
    if (!table.of(read_utf8(text, start).code).space()) break;
    end = start;
  }
  return end;
}

std::size_t space_end(std::string_view text, std::size_t begin) {
  const auto& table = unicode::all_traits();
  while (begin < text.size()) {
    const auto character = read_utf8(text, begin);
    if (!table.of(character.code).space()) break;
    begin += character.length;
  }
  return begin;
}

std::string_view text_normalizer::apply(std::string_view text, std::string& buffer) const {
  std::string next;
  for (const auto& step : steps_) {
    if (text.empty()) break;
    next.clear();
    switch (step.what) {
    case normalizer_step::kind::form:
      if (step.form == unicode::form::nfc && unicode::surely_nfc(text)) continue;
      next = unicode::normalized(text, step.form);
      break;
    case normalizer_step::kind::replace:
      if (text.find(step.from) == std::string_view::npos) continue;
      next.reserve(text.size() + text.size() / 4);
      append_replaced(next, text, step.from, step.to);
      break;
    case normalizer_step::kind::prepend:
      next.reserve(text.size() + step.to.size());
      next.append(step.to).append(text);
      break;
    case normalizer_step::kind::strip: {
      const auto begin = step.left ? space_end(text, 0) : 0;
      const auto end = step.right ? space_begin(text, begin, text.size()) : text.size();
      next = text.substr(begin, end - begin);
      break;
    }
    }
    buffer.swap(next);
    text = buffer;
  }
  return text;
}

} // namespace godwit::gpu::model
