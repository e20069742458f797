#include "jinja/lexer.hpp"

#include "jinja/unicode.hpp"

#include <array>
#include <utility>

namespace godwit::protocols::jinja {

namespace {

constexpr std::array<std::string_view, 27> signs{"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                                 "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                                 "]",  "{",  "}",  ",",  ":",  ".",  "|", ";", "!"};

constexpr std::size_t name_bytes_max = 250; ///< names are compared without a count of their bytes

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

/// One line feed for each end of a line, none at the end of the file.
std::string normalised(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class lexer {
public:
  explicit lexer(std::string source) : source_(std::move(source)) {}

  std::vector<token> run() {
    while (at_ < source_.size()) text_and_tag();
    add(token_kind::end);
    return std::move(tokens_);
  }

private:
  [[nodiscard]] bool sees(std::string_view what, std::size_t ahead = 0) const {
    return source_.compare(at_ + ahead, what.size(), what) == 0;
  }
  void advance(std::size_t bytes) {
    for (; bytes > 0 && at_ < source_.size(); --bytes)
      if (source_[at_++] == '\n') ++line_;
  }
  void add(token_kind what, std::string text = {}) { tokens_.push_back({what, std::move(text), line_}); }
  void skip_space() {
    while (at_ < source_.size()) {
      const auto bytes = space_at(source_, at_);
      if (bytes == 0) return;
      advance(bytes);
    }
  }

  /// Where the next tag opens, or the end.
  [[nodiscard]] std::size_t find_tag() const {
    for (auto found = source_.find('{', at_); found != std::string::npos; found = source_.find('{', found + 1))
      if (found + 1 < source_.size() &&
          (source_[found + 1] == '%' || source_[found + 1] == '{' || source_[found + 1] == '#'))
        return found;
    return source_.size();
  }

  /// The text before a tag whose third character is `mark`.
  [[nodiscard]] std::string stripped(std::string text, char mark, bool variable) const {
    if (mark == '-') {
      text.resize(trimmed_end(text));
    } else if (mark != '+' && !variable) {          // lstrip_blocks: the blanks before a tag that begins a line
      const auto line_start = text.rfind('\n') + 1; // npos + 1 is 0
      const bool begins_line = line_start > 0 || at_line_start_;
      if (begins_line && text.find_first_not_of(" \t", line_start) == std::string::npos) text.resize(line_start);
    }
    return text;
  }

  void text_and_tag() {
    const auto tag = find_tag();
    const auto mark = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    auto text = source_.substr(at_, tag - at_);
    if (tag < source_.size()) text = stripped(std::move(text), mark, source_[tag + 1] == '{');
    if (!text.empty()) add(token_kind::text, std::move(text));
    advance(tag - at_);
    if (at_ >= source_.size()) return;
    at_line_start_ = false;
    const auto behind = source_[at_ + 1];
    opened_ = line_;
    if (behind == '#') return comment();
    const bool output = behind == '{';
    if (!output && raw_block()) return;
    add(output ? token_kind::output_begin : token_kind::block_begin);
    advance(2);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+') && (!output || source_[at_] == '-'))
      advance(1);
    inside(output);
  }

  /// Just behind a tag.
  void after_tag(char mark, bool variable) {
    if (mark == '-') {
      const auto from = at_;
      skip_space();
      at_line_start_ = at_ > from && source_[at_ - 1] == '\n';
    } else if (!variable && mark != '+' && at_ < source_.size() && source_[at_] == '\n') { // trim_blocks
      advance(1);
      at_line_start_ = true;
    }
  }

  void comment() {
    const auto end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) fail(opened_, "a comment is not closed");
    const auto mark = end > at_ + 2 ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    after_tag(mark, false);
  }

  /// {% raw %} ... {% endraw %}
  bool raw_block() {
    std::size_t begin_end = 0;
    char mark = '\0';
    if (!tag_named("raw", at_, begin_end, mark)) return false;
    advance(begin_end - at_);
    after_tag(mark == '-' ? mark : '+', false); // trim_blocks does not go for it
    for (auto close = source_.find("{%", at_); close != std::string::npos; close = source_.find("{%", close + 2)) {
      std::size_t close_end = 0;
      if (!tag_named("endraw", close, close_end, mark)) continue;
      auto text =
          stripped(source_.substr(at_, close - at_), close + 2 < source_.size() ? source_[close + 2] : '\0', false);
      if (!text.empty()) add(token_kind::text, std::move(text));
      advance(close_end - at_);
      at_line_start_ = false;
      after_tag(mark, false);
      return true;
    }
    fail(opened_, "a raw block is not closed");
  }

  bool tag_named(std::string_view name, std::size_t from, std::size_t& end, char& mark) const {
    auto at = from + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    at = source_.find_first_not_of(" \t\n", at);
    if (at == std::string::npos || source_.compare(at, name.size(), name) != 0) return false;
    at = source_.find_first_not_of(" \t\n", at + name.size());
    if (at == std::string::npos) return false;
    mark = source_[at];
    if (mark == '-' || mark == '+') ++at;
    if (source_.compare(at, 2, "%}") != 0) return false;
    end = at + 2;
    return true;
  }

  void inside(bool output) {
    const std::string_view close = output ? "}}" : "%}";
    std::size_t brackets = 0;
    for (;;) {
      skip_space();
      if (at_ >= source_.size()) fail(opened_, output ? "an expression's {{ is not closed" : "a {% is not closed");
      const auto c = source_[at_];
      const bool marked = (c == '-' || c == '+') && sees(close, 1) && (!output || c == '-');
      if (brackets == 0 && (marked || sees(close))) {
        add(output ? token_kind::output_end : token_kind::block_end);
        advance(marked ? 3 : 2);
        return after_tag(marked ? c : '\0', output);
      }
      if (c == '"' || c == '\'')
        string(c);
      else if (is_digit(c))
        number();
      else if (starts_name(c))
        name();
      else
        sign(brackets);
    }
  }

  void name() {
    auto end = at_;
    while (end < source_.size() && (starts_name(source_[end]) || is_digit(source_[end]))) ++end;
    if (end - at_ > name_bytes_max) fail(line_, "a name is longer than " + std::to_string(name_bytes_max) + " bytes");
    add(token_kind::name, source_.substr(at_, end - at_));
    at_ = end;
  }

  /// 0x1F, 0o17, 0b11; false where there is none.
  bool prefixed_number() {
    constexpr std::string_view marks = "xXoObB";
    if (source_[at_] != '0' || at_ + 1 >= source_.size() || marks.find(source_[at_ + 1]) == std::string_view::npos)
      return false;
    auto end = at_ + 2;
    while (end < source_.size() && (is_digit(source_[end]) || starts_name(source_[end]))) ++end;
    add(token_kind::integer, source_.substr(at_, end - at_));
    at_ = end;
    return true;
  }

  void number() {
    if (prefixed_number()) return;
    auto end = at_;
    std::string digits;
    const auto take = [&] {
      for (; end < source_.size() && (is_digit(source_[end]) || source_[end] == '_'); ++end)
        if (source_[end] != '_') digits += source_[end];
    };
    const auto digit_at = [&](std::size_t place) { return place < source_.size() && is_digit(source_[place]); };
    take();
    bool real = false;
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == token_kind::sign && tokens_.back().text == ".";
    if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
      real = true;
      digits += source_[end++];
      take();
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const bool with_sign = end + 1 < source_.size() && (source_[end + 1] == '-' || source_[end + 1] == '+');
      if (digit_at(end + (with_sign ? 2 : 1))) {
        real = true;
        digits += source_[end++];
        if (with_sign) digits += source_[end++];
        take();
      }
    }
    add(real ? token_kind::real : token_kind::integer, std::move(digits));
    at_ = end;
  }

  void sign(std::size_t& brackets) {
    for (const auto known : signs) {
      if (!sees(known)) continue;
      if (known == "(" || known == "[" || known == "{") ++brackets;
      if ((known == ")" || known == "]" || known == "}") && brackets > 0) --brackets;
      add(token_kind::sign, std::string(known));
      at_ += known.size();
      return;
    }
    fail(line_, std::string("an unexpected character '") + source_[at_] + "'");
  }

  void string(char quote) {
    const auto begun = line_;
    advance(1);
    std::string out;
    for (;;) {
      if (at_ >= source_.size()) fail(begun, "a string is not closed");
      const auto c = source_[at_];
      advance(1);
      if (c == quote) break;
      if (c == '\\')
        escape(out, begun);
      else
        out += c;
    }
    tokens_.push_back({token_kind::string, std::move(out), begun});
  }

  void escape(std::string& out, std::uint32_t begun) {
    if (at_ >= source_.size()) fail(begun, "a string is not closed");
    const auto c = source_[at_];
    advance(1);
    static constexpr std::string_view from = "ntrbfva0'\"\\";
    static constexpr std::string_view to{"\n\t\r\b\f\v\a\0'\"\\", 11};
    if (const auto known = from.find(c); known != std::string_view::npos) {
      out += to[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      auto code = hex(digits);
      if (code >= 0xd800 && code < 0xdc00 && sees("\\u")) { // half a character, and the other half
        advance(2);
        code = 0x10000 + ((code - 0xd800) << 10U) + ((hex(4) - 0xdc00) & 0x3ffU);
      }
      append_utf8(out, code);
    } else if (c != '\n') { // a line feed after the backslash goes on
      out += '\\';
      out += c;
    }
  }

  std::uint32_t hex(std::size_t digits) {
    std::uint32_t code = 0;
    for (; digits > 0; --digits) {
      const auto c = at_ < source_.size() ? source_[at_] : '\0';
      const int digit = is_digit(c)              ? c - '0'
                        : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                        : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                 : -1;
      if (digit < 0) fail(line_, "an escape in a string has too few hexadecimal digits");
      code = code * 16 + static_cast<std::uint32_t>(digit);
      ++at_;
    }
    return code;
  }

  std::string source_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::uint32_t opened_ = 1;
  bool at_line_start_ = true;
  std::vector<token> tokens_;
};

} // namespace

std::vector<token> tokenize(std::string_view source) { return lexer(normalised(source)).run(); }

} // namespace godwit::protocols::jinja
