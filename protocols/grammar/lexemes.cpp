#include "grammar/lexemes.hpp"

#include "grammar/characters.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

namespace godwit::protocols::grammar {

namespace json = boost::json;

term_id white_space(term_table& terms) {
  if (const auto known = terms.made(U"space"); known != term_table::nothing) return known;
  const auto blank = terms.byte(' ');
  return terms.made(U"space") = terms.choice(
             {term_table::empty, blank, terms.sequence(terms.byte('\n'), terms.repeat(blank, 0, indentation_max))});
}

term_id any_string(term_table& terms, std::uint32_t least, std::uint32_t most) {
  const auto quote = terms.byte('"');
  return terms.sequence({quote, terms.repeat(any_json_character(terms), least, most), quote});
}

term_id any_integer(term_table& terms) {
  const auto digits = terms.sequence(terms.bytes(byte_range('1', '9')),
                                     terms.repeat(terms.bytes(byte_range('0', '9')), 0, integer_digits_max - 1));
  return terms.choice({terms.byte('0'), digits, terms.sequence(terms.byte('-'), digits)});
}

term_id any_number(term_table& terms) {
  const auto digit = terms.bytes(byte_range('0', '9'));
  const auto digits = terms.sequence(terms.bytes(byte_range('1', '9')), terms.repeat(digit, 0, integer_digits_max - 1));
  const auto fraction = terms.sequence(terms.byte('.'), terms.repeat(digit, 1, fraction_digits_max));
  const auto e = terms.choice({terms.byte('e'), terms.byte('E')});
  const auto sign = terms.choice({terms.byte('+'), terms.byte('-')});
  const auto exponent = terms.sequence({e, terms.optional(sign), terms.repeat(digit, 1, exponent_digits_max)});
  return terms.sequence({terms.optional(terms.byte('-')), terms.choice({terms.byte('0'), digits}),
                         terms.optional(fraction), terms.optional(exponent)});
}

std::string quoted(std::string_view text) {
  constexpr std::string_view named = "\"\\\b\f\n\r\t", names = "\"\\bfnrt", digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto place = named.find(c);
    if (place != std::string_view::npos) {
      out += '\\';
      out += names[place];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += digits[static_cast<unsigned char>(c) >> 4U];
      out += digits[static_cast<unsigned char>(c) & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

term_id value_text(term_table& terms, const json::value& value) {
  const auto text_of = [](const json::string& s) { return std::string_view(s.data(), s.size()); };
  const auto space = white_space(terms);
  const auto list = [&](char open, char close, const std::vector<term_id>& parts) {
    auto inner = parts.empty() ? term_table::empty : space;
    for (auto i = parts.size(); i-- > 0;) {
      inner = terms.sequence(parts[i], inner);
      if (i > 0) inner = terms.sequence({terms.byte(','), space, inner});
    }
    return terms.sequence(
        {terms.byte(static_cast<std::uint8_t>(open)), space, inner, terms.byte(static_cast<std::uint8_t>(close))});
  };
  std::vector<term_id> parts;
  switch (value.kind()) {
  case json::kind::string:
    return terms.literal(quoted(text_of(value.get_string())));
  case json::kind::array:
    for (const auto& element : value.get_array()) parts.push_back(value_text(terms, element));
    return list('[', ']', parts);
  case json::kind::object:
    for (const auto& member : value.get_object())
      parts.push_back(terms.sequence({terms.literal(quoted({member.key().data(), member.key().size()}) + ":"), space,
                                      value_text(terms, member.value())}));
    return list('{', '}', parts);
  case json::kind::double_: {
    if (!std::isfinite(value.get_double())) return term_table::nothing; // 1e400
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value.get_double()).ptr;
    return terms.literal({text.data(), static_cast<std::size_t>(end - text.data())});
  }
  case json::kind::int64:
    return terms.literal(std::to_string(value.get_int64()));
  case json::kind::uint64:
    return terms.literal(std::to_string(value.get_uint64()));
  case json::kind::bool_:
    return terms.literal(value.get_bool() ? "true" : "false");
  case json::kind::null:
    return terms.literal("null");
  }
  return term_table::nothing;
}

namespace {

/// Names as a tree of characters.
struct name_node {
  std::map<char32_t, name_node> next;
  bool ends = false;
};

term_id after(term_table& terms, const name_node& node, term_id free_rest, const work_meter& spent) {
  spent();
  character_set others(0, highest_character), taken;
  std::vector<term_id> parts;
  for (const auto& [c, child] : node.next) {
    taken.add(c, c);
    parts.push_back(terms.sequence(in_json_string(terms, {c, c}), after(terms, child, free_rest, spent)));
  }
  parts.push_back(terms.sequence(in_json_string(terms, others.without(taken)), free_rest));
  if (!node.ends) parts.push_back(terms.byte('"'));
  return terms.choice(parts);
}

} // namespace

term_id string_other_than(term_table& terms, const std::vector<std::string>& names, const work_meter& spent) {
  if (names.empty()) return any_string(terms, 0, unlimited);
  name_node root;
  for (const auto& name : names) {
    auto* at = &root;
    for (const auto c : characters_of(name)) at = &at->next[c];
    at->ends = true;
  }
  const auto any = in_json_string(terms, {0, highest_character});
  const auto quote = terms.byte('"');
  return terms.sequence(quote, after(terms, root, terms.sequence(terms.repeat(any, 0, unlimited), quote), spent));
}

} // namespace godwit::protocols::grammar
