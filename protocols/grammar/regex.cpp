#include "grammar/regex.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace godwit::protocols::grammar {

namespace {

constexpr std::size_t depth_max = 64;

struct refused {
  std::string why;
};

character_set digits() { return {'0', '9'}; }
character_set word() {
  character_set set('0', '9');
  set.add('A', 'Z');
  set.add('_', '_');
  set.add('a', 'z');
  return set;
}
character_set spaces() {
  character_set set(9, 13);
  for (const char32_t c : {0x20, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF}) set.add(c, c);
  set.add(0x2000, 0x200A);
  return set;
}
character_set not_line_end() {
  character_set set('\n', '\n');
  set.add('\r', '\r');
  set.add(0x2028, 0x2029);
  return set.complement();
}

class pattern_parser {
public:
  pattern_parser(term_table& terms, std::u32string text, const pattern_context& context)
      : terms_(terms), text_(std::move(text)), context_(context) {}

  term_id parse() {
    std::vector<term_id> all{anchored()};
    while (take('|')) all.push_back(anchored());
    if (at_ < text_.size()) fail("an unmatched ')'");
    return terms_.choice(all);
  }

private:
  [[noreturn]] void fail(const std::string& what) const {
    throw refused{what + " at character " + std::to_string(at_ + 1)};
  }
  [[nodiscard]] bool end() const { return at_ >= text_.size(); }
  [[nodiscard]] char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : U'\0';
  }
  bool take(char32_t c) {
    if (end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  /// An alternative of the whole pattern.
  term_id anchored() {
    const bool from_start = take('^');
    const auto body = alternative();
    const bool to_end = take('$');
    if (!end() && peek() != '|' && peek() != ')') fail("'$' that is not at the end");
    auto whole = to_end ? body : terms_.sequence(body, context_.around);
    return from_start ? whole : terms_.sequence(context_.around, whole);
  }

  term_id alternatives() {
    if (++depth_ > depth_max) fail("groups nested too deeply");
    std::vector<term_id> all{alternative()};
    while (take('|')) all.push_back(alternative());
    --depth_;
    return terms_.choice(all);
  }

  term_id alternative() {
    std::vector<term_id> parts;
    while (!end() && peek() != '|' && peek() != ')' && !(peek() == '$' && depth_ == 0)) parts.push_back(quantified());
    term_id whole = term_table::empty;
    for (; !parts.empty(); parts.pop_back()) whole = terms_.sequence(parts.back(), whole);
    return whole;
  }

  term_id quantified() {
    const auto what = atom();
    std::uint32_t least = 1, most = 1;
    if (take('*')) {
      least = 0;
      most = unlimited;
    } else if (take('+')) {
      most = unlimited;
    } else if (take('?')) {
      least = 0;
    } else if (repetition()) {
      ++at_;
      least = number();
      most = take(',') ? (peek() == '}' ? unlimited : number()) : least;
      if (!take('}')) fail("an unfinished '{'");
      if (most < least) fail("a repetition whose maximum is below its minimum");
    } else {
      return what;
    }
    static_cast<void>(take('?')); // which match is found first is no matter
    if (peek() == '*' || peek() == '+' || peek() == '?' || repetition()) fail("a quantifier after a quantifier");
    return terms_.repeat(what, least, most);
  }

  /// A '{' without a number is a character.
  bool repetition() const { return peek() == '{' && peek(1) >= '0' && peek(1) <= '9'; }

  std::uint32_t number() {
    if (peek() < '0' || peek() > '9') fail("no number in '{}'");
    std::uint32_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
      if (value > pattern_repeats_max) fail("more than " + std::to_string(pattern_repeats_max) + " repetitions");
    }
    return value;
  }

  term_id atom() {
    const auto c = text_[at_];
    switch (c) {
    case '(':
      return group();
    case '[':
      return context_.character(bracket());
    case '.':
      ++at_;
      return context_.character(not_line_end());
    case '\\':
      ++at_;
      return context_.character(escape(false));
    case '^':
      fail("'^' that is not at the beginning");
    case '$':
      fail("'$' that is not at the end");
    case '*':
    case '+':
    case '?':
      fail("a quantifier without anything before it");
    default:
      if (repetition()) fail("a quantifier without anything before it");
      ++at_;
      return context_.character({c, c});
    }
  }

  term_id group() {
    ++at_;
    if (take('?')) {
      if (peek() == '=' || peek() == '!' || (peek() == '<' && (peek(1) == '=' || peek(1) == '!')))
        fail("a look-around group, which is not supported,");
      if (take('<') || (peek() == 'P' && peek(1) == '<' && ++at_ && ++at_)) {
        while (!end() && peek() != '>') ++at_;
        if (!take('>')) fail("an unfinished group name");
      } else if (!take(':')) {
        fail("a group with flags, which is not supported,");
      }
    }
    const auto inner = alternatives();
    if (!take(')')) fail("an unfinished group");
    return inner;
  }

  char32_t hex(std::size_t count) {
    char32_t value = 0;
    for (; count > 0; --count) {
      const auto c = peek();
      const int digit = c >= '0' && c <= '9'   ? static_cast<int>(c - '0')
                        : c >= 'a' && c <= 'f' ? static_cast<int>(c - 'a') + 10
                        : c >= 'A' && c <= 'F' ? static_cast<int>(c - 'A') + 10
                                               : -1;
      if (digit < 0) fail("an unfinished escape");
      value = value << 4U | static_cast<char32_t>(digit);
      ++at_;
    }
    return value;
  }

  char32_t unicode_escape() {
    if (take('{')) {
      char32_t value = 0;
      for (std::size_t i = 0; peek() != '}'; ++i) {
        if (i == 6) fail("a character beyond Unicode");
        value = value << 4U | hex(1);
      }
      ++at_;
      if (value > highest_character) fail("a character beyond Unicode");
      return value;
    }
    const auto high = hex(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take('\\') || !take('u')) fail("half a surrogate pair");
    const auto low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
    return 0x10000 + ((high & 0x3FFU) << 10U | (low & 0x3FFU));
  }

  /// What stands behind a backslash.
  character_set escape(bool in_class) {
    if (end()) fail("a backslash at the end");
    const auto c = text_[at_++];
    const auto one = [](char32_t is) { return character_set(is, is); };
    switch (c) {
    case 'd':
      return digits();
    case 'D':
      return digits().complement();
    case 'w':
      return word();
    case 'W':
      return word().complement();
    case 's':
      return spaces();
    case 'S':
      return spaces().complement();
    case 't':
      return one('\t');
    case 'n':
      return one('\n');
    case 'r':
      return one('\r');
    case 'f':
      return one('\f');
    case 'v':
      return one('\v');
    case '0':
      if (peek() >= '0' && peek() <= '9') fail("an octal escape, which is not supported,");
      return one(0);
    case 'x':
      return one(hex(2));
    case 'u':
      return one(unicode_escape());
    case 'b':
      if (in_class) return one('\b');
      [[fallthrough]];
    case 'B':
      fail("a word boundary, which is not supported,");
    case 'p':
    case 'P':
      fail("a Unicode property, which is not supported,");
    default:
      if (c >= '1' && c <= '9') fail("a back-reference, which is not supported,");
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) fail("an unknown escape");
      return one(c);
    }
  }

  character_set bracket() {
    ++at_;
    const bool negated = take('^');
    std::vector<character_set::range> all;
    const auto add = [&all](const character_set& more) {
      all.insert(all.end(), more.ranges().begin(), more.ranges().end());
    };
    while (!take(']')) {
      if (end()) fail("an unfinished '['");
      const auto first = member();
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        const auto last = member();
        if (!single(first) || !single(last)) { // beside a class the '-' is itself, as everybody reads it
          add(first);
          all.push_back({'-', '-'});
          add(last);
          continue;
        }
        if (first.ranges()[0].first > last.ranges()[0].first) fail("a range that is none");
        all.push_back({first.ranges()[0].first, last.ranges()[0].first});
      } else {
        add(first);
      }
    }
    const character_set set(std::move(all));
    return negated ? set.complement() : set;
  }
  static bool single(const character_set& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }
  character_set member() {
    const auto c = text_[at_++];
    return c == '\\' ? escape(true) : character_set(c, c);
  }

  term_table& terms_;
  std::u32string text_;
  const pattern_context& context_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
};

struct text_lengths {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};

/// How many bytes the texts of a term have; `unlimited`: as many, or more. Without rules.
text_lengths lengths_of(const term_table& terms, term_id of) {
  const auto bound = [](std::uint64_t length) { return std::min<std::uint64_t>(length, unlimited); };
  std::vector<text_lengths> all(of + std::size_t{1});
  all[term_table::nothing].least = unlimited;
  for (term_id id = term_table::empty + 1; id <= of; ++id) {
    const auto& t = terms.at(id);
    auto& here = all[id];
    if (t.what == term::kind::bytes) {
      here = {1, 1};
    } else if (t.what == term::kind::sequence) {
      here = {bound(all[t.a].least + all[t.b].least), bound(all[t.a].most + all[t.b].most)};
    } else if (t.what == term::kind::repeat) {
      here = {bound(t.least * all[t.a].least), bound(t.most * all[t.a].most)};
    } else if (t.what == term::kind::choice) {
      here.least = unlimited;
      for (const auto child : terms.choices(t))
        here = {std::min(here.least, all[child].least), std::max(here.most, all[child].most)};
    }
  }
  return all[of];
}

} // namespace

expected<term_id, std::string> compile_pattern(term_table& terms, std::string_view pattern,
                                               const pattern_context& context) {
  if (pattern.size() > pattern_bytes_max)
    return unexpected(std::string("a pattern may have " + std::to_string(pattern_bytes_max) + " bytes, this one has " +
                                  std::to_string(pattern.size())));
  terms.spend(pattern.size());
  try {
    return pattern_parser(terms, characters_of(pattern), context).parse();
  } catch (const refused& fault) {
    return unexpected("the pattern has " + fault.why);
  }
}

std::optional<term_id> matches_of_length(term_table& terms, term_id matches, std::string_view pattern,
                                         std::uint32_t least, std::uint32_t most) {
  // The same pattern where every character is one byte: its texts have as many bytes as the matches have characters.
  constexpr std::size_t terms_max = 1U << 17U;
  term_table counted(terms_max);
  const auto one = counted.byte('x');
  pattern_context context;
  context.character = [one](const character_set& set) { return set.ranges().empty() ? term_table::nothing : one; };
  context.around = counted.repeat(one, 0, unlimited);
  const auto all = compile_pattern(counted, pattern, context);
  if (!all) return std::nullopt;
  terms.spend(counted.work() + *all);
  const auto lengths = lengths_of(counted, *all);
  if (lengths.least >= least && lengths.most <= most) return matches;
  const auto of = terms.at(matches), count = counted.at(*all);
  if (of.what != term::kind::repeat || count.what != term::kind::repeat || count.a != one) return std::nullopt;
  least = std::max(least, of.least);
  most = std::min(most, of.most);
  return least > most ? term_table::nothing : terms.repeat(of.a, least, most);
}

} // namespace godwit::protocols::grammar
