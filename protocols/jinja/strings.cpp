#include "jinja/strings.hpp"

#include "jinja/search.hpp"
#include "jinja/unicode.hpp"

#include <algorithm>
#include <set>

namespace godwit::protocols::jinja {

namespace {

bool has_cases(std::string_view character) {
  return upper_case(character) != character || lower_case(character) != character;
}

} // namespace

text stripped(const text& from, bool left, bool right, std::optional<std::string_view> of) {
  const std::string_view all = from.bytes();
  std::size_t begin = 0;
  auto end = all.size();
  if (!of) {
    if (right) end = trimmed_end(all);
    if (left) begin = std::min(trimmed_begin(all), end);
    return from.slice(begin, end);
  }
  std::set<std::string_view> characters;
  for (std::size_t at = 0; at < of->size(); at += character_bytes(*of, at))
    characters.insert(of->substr(at, character_bytes(*of, at)));
  while (left && begin < end && characters.contains(all.substr(begin, character_bytes(all, begin))))
    begin += character_bytes(all, begin);
  while (right && end > begin) {
    auto at = end - 1;
    while (at > begin && end - at < 4 && (static_cast<unsigned char>(all[at]) & 0xc0U) == 0x80U) --at;
    if (character_bytes(all, at) != end - at) at = end - 1;
    if (!characters.contains(all.substr(at, end - at))) break;
    end = at;
  }
  return from.slice(begin, end);
}

text replaced(const text& in, std::string_view what, const text& by, std::size_t count) {
  const std::string_view all = in.bytes();
  text out;
  std::size_t from = 0;
  if (what.empty()) {
    while (count > 0) {
      --count;
      out.append(by);
      if (from >= all.size()) return out;
      const auto end = from + character_bytes(all, from);
      out.append(in, from, end);
      from = end;
    }
  } else {
    for (; count > 0; --count) {
      const auto found = find_first(all, what, from);
      if (found == std::string_view::npos) break;
      out.append(in, from, found);
      out.append(by);
      from = found + what.size();
    }
  }
  out.append(in, from, all.size());
  return out;
}

std::vector<text> split(const text& what, std::string_view at, std::size_t count, bool from_right) {
  const std::string_view all = what.bytes();
  std::vector<text> out;
  if (!from_right) {
    std::size_t from = 0;
    for (; count > 0; --count) {
      const auto found = find_first(all, at, from);
      if (found == std::string_view::npos) break;
      out.push_back(what.slice(from, found));
      from = found + at.size();
    }
    out.push_back(what.slice(from, all.size()));
    return out;
  }
  if (at.size() > all.size()) return {what};
  const auto all_mirrored = mirrored(all);
  const auto at_mirrored = mirrored(at);
  auto end = all.size();
  for (; count > 0; --count) {
    const auto found = find_first(all_mirrored, at_mirrored, all.size() - end);
    if (found == std::string_view::npos) break;
    out.push_back(what.slice(all.size() - found, end));
    end = all.size() - found - at.size();
  }
  out.push_back(what.slice(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<text> split_words(const text& what, std::size_t count) {
  const std::string_view all = what.bytes();
  std::vector<text> out;
  std::size_t at = 0;
  for (;;) {
    at += trimmed_begin(all.substr(at));
    if (at >= all.size()) return out;
    if (count-- == 0) {
      out.push_back(what.slice(at, all.size()));
      return out;
    }
    const auto from = at;
    while (at < all.size() && space_at(all, at) == 0) at += character_bytes(all, at);
    out.push_back(what.slice(from, at));
  }
}

std::vector<text> split_lines(const text& what, bool keep_ends) {
  const std::string_view all = what.bytes();
  std::vector<text> out;
  for (std::size_t from = 0; from < all.size();) {
    auto end = from;
    while (end < all.size() && line_end_at(all, end) == 0) end += character_bytes(all, end);
    const auto next = end < all.size() ? end + line_end_at(all, end) : end;
    out.push_back(what.slice(from, keep_ends ? next : end));
    from = next;
  }
  return out;
}

std::size_t count_lines(std::string_view bytes) noexcept {
  std::size_t count = 1;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto end = line_end_at(bytes, at);
    count += end > 0 ? 1 : 0;
    at += end > 0 ? end : character_bytes(bytes, at);
  }
  return count;
}

text in_case(const text& what, letter_case how) {
  const std::string_view all = what.bytes();
  text out;
  std::size_t from = 0;
  bool begins = true; // a word, or the whole
  for (const auto& run : what.runs()) {
    const auto part = all.substr(from, run.end - from);
    from = run.end;
    if (how == letter_case::upper || how == letter_case::lower) {
      out.append(how == letter_case::upper ? upper_case(part) : lower_case(part), run.markup);
      continue;
    }
    std::string bytes;
    for (std::size_t at = 0; at < part.size();) {
      const auto length = character_bytes(part, at);
      const auto character = part.substr(at, length);
      bytes += begins ? upper_case(character) : lower_case(character);
      begins = how == letter_case::title ? !has_cases(character)
               : how == letter_case::words
                   ? space_at(part, at) > 0 || std::string_view("-({[<").find(part[at]) != std::string_view::npos
                   : false;
      at += length;
    }
    out.append(bytes, run.markup);
  }
  return out;
}

} // namespace godwit::protocols::jinja
