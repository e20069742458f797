#include "grammar/characters.hpp"

#include <algorithm>
#include <array>

namespace godwit::protocols::grammar {

namespace {

constexpr char32_t first_surrogate = 0xD800, last_surrogate = 0xDFFF;

struct encoded {
  std::array<std::uint8_t, 4> bytes{};
  std::size_t size = 0;
};

encoded encode(char32_t c) {
  const auto tail = [&](unsigned shift) { return static_cast<std::uint8_t>(0x80U | (c >> shift & 0x3FU)); };
  if (c < 0x80) return {{static_cast<std::uint8_t>(c)}, 1};
  if (c < 0x800) return {{static_cast<std::uint8_t>(0xC0U | c >> 6U), tail(0)}, 2};
  if (c < 0x10000) return {{static_cast<std::uint8_t>(0xE0U | c >> 12U), tail(6), tail(0)}, 3};
  return {{static_cast<std::uint8_t>(0xF0U | c >> 18U), tail(12), tail(6), tail(0)}, 4};
}

/// All sequences of bytes between two of the same length, of which all in between are characters.
term_id between(term_table& terms, const encoded& low, const encoded& high, std::size_t at) {
  if (at == low.size) return term_table::empty;
  const auto l = low.bytes[at], h = high.bytes[at];
  if (l == h) return terms.sequence(terms.byte(l), between(terms, low, high, at + 1));
  auto lowest = low, highest = high;
  for (auto i = at + 1; i < low.size; ++i) {
    lowest.bytes[i] = 0x80;
    highest.bytes[i] = 0xBF;
  }
  const auto rest = between(terms, lowest, highest, at + 1);
  std::vector<term_id> parts{terms.sequence(terms.byte(l), between(terms, low, highest, at + 1)),
                             terms.sequence(terms.byte(h), between(terms, lowest, high, at + 1))};
  if (h - l > 1)
    parts.push_back(terms.sequence(
        terms.bytes(byte_range(static_cast<std::uint8_t>(l + 1), static_cast<std::uint8_t>(h - 1))), rest));
  return terms.choice(parts);
}

void range_to_utf8(term_table& terms, char32_t first, char32_t last, std::vector<term_id>& into) {
  constexpr std::array<char32_t, 5> ends{0x7F, 0x7FF, first_surrogate - 1, 0xFFFF, highest_character};
  for (const auto end : ends) {
    if (first > last) return;
    if (first > end) continue;
    if (first >= first_surrogate && first <= last_surrogate) first = last_surrogate + 1;
    if (first > last || first > end) continue;
    const auto here = std::min(last, end);
    into.push_back(between(terms, encode(first), encode(here), 0));
    first = here + 1;
  }
}

term_id hex(term_table& terms, std::uint8_t low, std::uint8_t high) {
  byte_set set{};
  for (unsigned digit = low; digit <= high; ++digit)
    for (const char* digits : {"0123456789abcdef", "0123456789ABCDEF"}) {
      const auto b = static_cast<std::uint8_t>(digits[digit]);
      set[b >> 6U] |= std::uint64_t{1} << (b & 63U);
    }
  return terms.bytes(set);
}

} // namespace

character_set::character_set(std::vector<range> all) : ranges_(std::move(all)) {
  if (ranges_.empty()) return;
  std::ranges::sort(ranges_, {}, &range::first);
  auto end = ranges_.begin();
  for (auto next = end + 1; next != ranges_.end(); ++next)
    if (next->first <= end->last + 1)
      end->last = std::max(end->last, next->last);
    else
      *++end = *next;
  ranges_.erase(end + 1, ranges_.end());
}

void character_set::add(char32_t first, char32_t last) {
  if (first > last) return;
  if (ranges_.empty() || ranges_.back().last + 1 < first) {
    ranges_.push_back({first, last});
    return;
  }
  std::vector<range> out;
  bool placed = false;
  for (const auto& r : ranges_) {
    if (r.last + 1 < first) {
      out.push_back(r);
    } else if (last + 1 < r.first) {
      if (!placed) out.push_back({first, last});
      placed = true;
      out.push_back(r);
    } else {
      first = std::min(first, r.first);
      last = std::max(last, r.last);
    }
  }
  if (!placed) out.push_back({first, last});
  ranges_ = std::move(out);
}

void character_set::add(const character_set& other) {
  auto all = std::move(ranges_);
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  *this = character_set(std::move(all));
}

character_set character_set::complement() const {
  character_set out;
  char32_t next = 0;
  for (const auto& r : ranges_) {
    if (r.first > next) out.ranges_.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= highest_character) out.ranges_.push_back({next, highest_character});
  return out;
}

character_set character_set::without(const character_set& other) const {
  auto all = complement();
  all.add(other);
  return all.complement();
}

bool character_set::contains(char32_t c) const noexcept {
  const auto at = std::ranges::lower_bound(ranges_, c, {}, &range::last);
  return at != ranges_.end() && at->first <= c;
}

namespace {

std::u32string key_of(char32_t kind, const character_set& set) {
  std::u32string key(1, kind);
  for (const auto& r : set.ranges()) {
    key += r.first;
    key += r.last;
  }
  return key;
}

} // namespace

term_id utf8_of(term_table& terms, const character_set& set) {
  terms.spend(1 + set.ranges().size());
  const auto key = key_of(U'u', set);
  if (const auto known = terms.made(key); known != term_table::nothing) return known;
  std::vector<term_id> parts;
  for (const auto& r : set.ranges()) range_to_utf8(terms, r.first, r.last, parts);
  return terms.made(key) = terms.choice(parts);
}

term_id in_json_string(term_table& terms, const character_set& set) {
  terms.spend(1 + set.ranges().size());
  const auto key = key_of(U'j', set);
  if (const auto known = terms.made(key); known != term_table::nothing) return known;
  character_set escaped(0, 0x1F);
  escaped.add('"', '"');
  escaped.add('\\', '\\');
  std::vector<term_id> parts{utf8_of(terms, set.without(escaped))};
  constexpr std::string_view named = "\"\\\b\f\n\r\t", names = "\"\\bfnrt";
  for (const auto& r : escaped.ranges())
    for (char32_t c = r.first; c <= r.last; ++c) {
      if (!set.contains(c)) continue;
      const auto place = named.find(static_cast<char>(c));
      if (place != std::string_view::npos)
        parts.push_back(terms.sequence({terms.byte('\\'), terms.byte(static_cast<std::uint8_t>(names[place]))}));
      else
        parts.push_back(terms.sequence(
            {terms.literal("\\u00"), hex(terms, static_cast<std::uint8_t>(c >> 4U), static_cast<std::uint8_t>(c >> 4U)),
             hex(terms, c & 15U, c & 15U)}));
    }
  return terms.made(key) = terms.choice(parts);
}

term_id any_json_character(term_table& terms) {
  if (const auto known = terms.made(U"any"); known != term_table::nothing) return known;
  character_set plain(0x20, highest_character);
  character_set quoted('"', '"');
  quoted.add('\\', '\\');
  plain = plain.without(quoted);
  const auto digit = hex(terms, 0, 15), u = terms.byte('u'), backslash = terms.byte('\\');
  byte_set simple{};
  for (const char c : std::string_view("\"\\/bfnrt")) {
    const auto b = static_cast<std::uint8_t>(c);
    simple[b >> 6U] |= std::uint64_t{1} << (b & 63U);
  }
  const auto d = hex(terms, 13, 13);
  const auto whole = terms.choice({terms.sequence({hex(terms, 0, 12), digit, digit, digit}),
                                   terms.sequence({hex(terms, 14, 15), digit, digit, digit}),
                                   terms.sequence({d, hex(terms, 0, 7), digit, digit})});
  const auto pair =
      terms.sequence({d, hex(terms, 8, 11), digit, digit, backslash, u, d, hex(terms, 12, 15), digit, digit});
  const auto escape = terms.choice({terms.bytes(simple), terms.sequence(u, terms.choice({whole, pair}))});
  return terms.made(U"any") = terms.choice({utf8_of(terms, plain), terms.sequence(backslash, escape)});
}

std::u32string characters_of(std::string_view utf8) {
  std::u32string out;
  for (std::size_t i = 0; i < utf8.size();) {
    const auto lead = static_cast<std::uint8_t>(utf8[i]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t c = size == 1 ? lead : lead & (0xFFU >> (size + 1));
    for (std::size_t k = 1; k < size && i + k < utf8.size(); ++k)
      c = c << 6U | (static_cast<std::uint8_t>(utf8[i + k]) & 0x3FU);
    out.push_back(c);
    i += size;
  }
  return out;
}

} // namespace godwit::protocols::grammar
