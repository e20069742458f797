#include "model/text_normalizer.hpp"

#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

#include <algorithm>

namespace godwit::gpu::model {

namespace {

/// Whether no form changes what stands before `at` and after it together: the character there joins none before it.
bool apart(std::string_view text, std::size_t at, unicode::form form) {
  if (at == 0 || at >= text.size() || static_cast<std::uint8_t>(text[at]) < 0x80) return true;
  const auto first = unicode::normalized(text.substr(at, read_utf8(text, at).length), form);
  return unicode::surely_nfc(std::string_view(first).substr(0, read_utf8(first, 0).length));
}

/// Where the character begins that ends at `end`.
std::size_t character_begin(std::string_view text, std::size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xC0U) == 0x80U);
  return end;
}

/// `text` in a form. Ranges shrink to where the text falls apart, and each part is normalized by itself.
std::string in_form(std::string_view text, unicode::form form, std::vector<byte_range>& marked) {
  if (marked.empty()) return unicode::normalized(text, form);
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;
  const auto up_to = [&](std::size_t end) {
    out += unicode::normalized(text.substr(done, end - done), form);
    done = end;
    return out.size();
  };
  for (auto& [begin, end] : marked) {
    while (begin < end && !apart(text, begin, form)) begin += read_utf8(text, begin).length;
    while (end > begin && !apart(text, end, form)) end = character_begin(text, end);
    if (begin >= end) {
      begin = end = out.size(); // empty, and in order
      continue;
    }
    begin = up_to(begin);
    end = up_to(end);
  }
  up_to(text.size());
  return out;
}

/// Where ranges lie once each `from` is `to`. A `from` across an end of one is outside.
void move_replaced(std::string_view text, std::string_view from, std::string_view to, std::vector<byte_range>& marked) {
  std::size_t done = 0, now = 0; // the ends of the last match and of what it became
  auto found = text.find(from);
  const auto place = [&](std::size_t at, bool begins) {
    while (found != std::string_view::npos && found + from.size() <= at) {
      now += found - done + to.size();
      done = found + from.size();
      found = text.find(from, done);
    }
    if (found >= at) return now + (at - done);
    return now + (found - done) + (begins ? to.size() : 0);
  };
  for (auto& [begin, end] : marked) {
    begin = place(begin, true);
    end = std::max(begin, place(end, false));
  }
}

} // namespace

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

std::string_view text_normalizer::apply(std::string_view text, std::string& buffer,
                                        std::vector<byte_range>& marked) const {
  std::string next;
  for (const auto& step : steps_) {
    if (text.empty()) break;
    next.clear();
    switch (step.what) {
    case normalizer_step::kind::form:
      if (step.form == unicode::form::nfc && unicode::surely_nfc(text)) continue;
      next = in_form(text, step.form, marked);
      break;
    case normalizer_step::kind::replace:
      if (text.find(step.from) == std::string_view::npos) continue;
      next.reserve(text.size() + text.size() / 4);
      append_replaced(next, text, step.from, step.to);
      move_replaced(text, step.from, step.to, marked);
      break;
    case normalizer_step::kind::prepend:
      next.reserve(text.size() + step.to.size());
      next.append(step.to).append(text);
      for (auto& [begin, end] : marked) {
        if (begin > 0) begin += step.to.size();
        end += step.to.size();
      }
      break;
    case normalizer_step::kind::strip: {
      const auto begin = step.left ? space_end(text, 0) : 0;
      const auto end = step.right ? space_begin(text, begin, text.size()) : text.size();
      next = text.substr(begin, end - begin);
      for (auto& one : marked) {
        one.begin = std::clamp(one.begin, begin, end) - begin;
        one.end = std::clamp(one.end, begin, end) - begin;
      }
      break;
    }
    }
    buffer.swap(next);
    text = buffer;
  }
  return text;
}

} // namespace godwit::gpu::model
