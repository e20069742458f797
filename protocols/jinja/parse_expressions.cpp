#include "jinja/numbers.hpp"
#include "jinja/parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::protocols::jinja {

namespace {

bool is_reserved(std::string_view word) {
  constexpr std::array words{"and", "or", "not", "in", "is", "if", "else"};
  for (const std::string_view known : words)
    if (known == word) return true;
  return false;
}

/// 0x, 0o and 0b in front tell the base.
std::int64_t integer_of(const token& from) {
  const auto number = parse_integer(from.text, 0);
  if (!number) fail(from.line, "the number " + from.text.substr(0, 40) + " is none or out of range");
  return *number;
}

double real_of(const token& from) {
  const auto number = parse_real(from.text);
  if (!number) fail(from.line, "the number " + from.text.substr(0, 40) + " is out of range");
  return *number;
}

} // namespace

node_ptr parser::make(node_kind kind, std::uint32_t at) const {
  auto out = std::make_unique<node>();
  out->kind = kind;
  out->line = at;
  return out;
}

node_ptr parser::with(node_ptr of, std::vector<node_ptr> parts) {
  for (const auto& part : parts)
    if (part) of->height = std::max(of->height, part->height + 1);
  of->parts = std::move(parts);
  if (of->height > 2 * limits_.nesting_max) fail(of->line, "nested too deeply");
  return of;
}

std::string parser::shown() const {
  const auto& next = peek();
  switch (next.kind) {
  case token_kind::end:
    return "the end of the template";
  case token_kind::text:
    return "text";
  case token_kind::block_begin:
    return "'{%'";
  case token_kind::block_end:
    return "'%}'";
  case token_kind::output_begin:
    return "'{{'";
  case token_kind::output_end:
    return "'}}'";
  default:
    return "'" + next.text.substr(0, 40) + "'";
  }
}

bool parser::skip(std::string_view sign) {
  if (!sees(sign)) return false;
  take();
  return true;
}

bool parser::skip_word(std::string_view word) {
  if (!sees_word(word)) return false;
  take();
  return true;
}

void parser::expect(std::string_view sign) {
  if (!skip(sign)) fail(line(), "expected '" + std::string(sign) + "', found " + shown());
}

void parser::expect_word(std::string_view word) {
  if (!skip_word(word)) fail(line(), "expected '" + std::string(word) + "', found " + shown());
}

void parser::expect(token_kind kind, const char* what) {
  if (peek().kind != kind) fail(line(), std::string("expected ") + what + ", found " + shown());
  take();
}

std::string parser::identifier(const char* what) {
  if (peek().kind != token_kind::name) fail(line(), std::string("expected ") + what + ", found " + shown());
  return take().text;
}

node_ptr parser::expression_list(bool choice) {
  const auto at = line();
  auto first = choice ? expression() : either();
  if (!sees(",")) return first;
  std::vector<node_ptr> parts = parts_of(std::move(first));
  while (skip(",")) {
    const auto next = peek().kind;
    if (next == token_kind::block_end || next == token_kind::output_end || sees(")") || sees("=")) break;
    parts.push_back(choice ? expression() : either());
  }
  return with(make(node_kind::list, at), std::move(parts));
}

node_ptr parser::expression() {
  const level here(*this);
  auto out = either();
  while (sees_word("if")) {
    const auto at = line();
    take();
    auto condition = either();
    node_ptr otherwise;
    if (skip_word("else")) otherwise = expression();
    out = with(make(node_kind::choice, at), parts_of(std::move(condition), std::move(out), std::move(otherwise)));
  }
  return out;
}

node_ptr parser::either() {
  auto out = both();
  while (sees_word("or")) {
    const auto at = take().line;
    auto right = both();
    out = with(make(node_kind::either, at), parts_of(std::move(out), std::move(right)));
  }
  return out;
}

node_ptr parser::both() {
  auto out = negation();
  while (sees_word("and")) {
    const auto at = take().line;
    auto right = negation();
    out = with(make(node_kind::both, at), parts_of(std::move(out), std::move(right)));
  }
  return out;
}

node_ptr parser::negation() {
  if (!sees_word("not")) return comparison();
  const level here(*this);
  auto out = make(node_kind::unary, take().line);
  out->name = "not";
  return with(std::move(out), parts_of(negation()));
}

node_ptr parser::comparison() {
  constexpr std::array<std::string_view, 6> operators{"==", "!=", "<=", ">=", "<", ">"};
  const auto at = line();
  auto first = sum();
  std::vector<node_ptr> parts;
  std::vector<std::string> names;
  for (;;) {
    std::string name;
    if (sees_word("in")) {
      name = "in";
    } else if (sees_word("not") && sees_word("in", 1)) {
      name = "not in";
      take();
    } else {
      for (const auto known : operators)
        if (sees(known)) name = known;
    }
    if (name.empty()) break;
    take();
    if (parts.empty()) parts.push_back(std::move(first));
    names.push_back(std::move(name));
    parts.push_back(sum());
  }
  if (parts.empty()) return first;
  const auto is_none = [](const node_ptr& of) {
    return of->kind == node_kind::constant && of->constant.is(value::kind::none);
  };
  if (std::ranges::any_of(parts, is_none))
    for (const auto& part : parts) compares_with_none(*part);
  auto out = make(node_kind::compare, at);
  out->argument_names = std::move(names);
  return with(std::move(out), std::move(parts));
}

node_ptr parser::sum() {
  auto out = joined();
  while (sees("+") || sees("-")) {
    auto next = make(node_kind::binary, line());
    next->name = take().text;
    auto right = joined();
    out = with(std::move(next), parts_of(std::move(out), std::move(right)));
  }
  return out;
}

node_ptr parser::joined() {
  const auto at = line();
  auto first = product();
  if (!sees("~")) return first;
  auto parts = parts_of(std::move(first));
  while (skip("~")) {
    if (parts.size() >= limits_.chain_max) fail(line(), "too many values are joined by '~'");
    parts.push_back(product());
  }
  return with(make(node_kind::joined, at), std::move(parts));
}

node_ptr parser::product() {
  auto out = power();
  while (sees("*") || sees("/") || sees("//") || sees("%")) {
    auto next = make(node_kind::binary, line());
    next->name = take().text;
    auto right = power();
    out = with(std::move(next), parts_of(std::move(out), std::move(right)));
  }
  return out;
}

node_ptr parser::sign_and_filters(bool with_filters) {
  node_ptr out;
  if (sees("-") || sees("+")) {
    const level here(*this);
    auto unary = make(node_kind::unary, line());
    unary->name = take().text;
    out = with(std::move(unary), parts_of(sign_and_filters(false)));
  } else {
    out = members(primary());
  }
  return with_filters ? filters(std::move(out)) : std::move(out);
}

node_ptr parser::power() {
  auto out = sign_and_filters();
  while (sees("**")) {
    auto next = make(node_kind::binary, line());
    next->name = take().text;
    auto right = sign_and_filters();
    out = with(std::move(next), parts_of(std::move(out), std::move(right)));
  }
  return out;
}

node_ptr parser::primary() {
  const level here(*this);
  const auto next = peek();
  switch (next.kind) {
  case token_kind::string: {
    auto out = make(node_kind::constant, next.line);
    std::string bytes;
    while (peek().kind == token_kind::string) bytes += take().text;
    out->constant = value::markup(std::move(bytes));
    return out;
  }
  case token_kind::integer: {
    auto out = make(node_kind::constant, next.line);
    out->constant = value(integer_of(take()));
    return out;
  }
  case token_kind::real: {
    auto out = make(node_kind::constant, next.line);
    out->constant = value(real_of(take()));
    return out;
  }
  case token_kind::name: {
    if (is_reserved(next.text)) break;
    take();
    auto out = make(node_kind::constant, next.line);
    if (next.text == "true" || next.text == "True")
      out->constant = value(true);
    else if (next.text == "false" || next.text == "False")
      out->constant = value(false);
    else if (next.text == "none" || next.text == "None")
      out->constant = value(none_t{});
    else {
      out->kind = node_kind::name;
      out->name = next.text;
      names_.read.insert(next.text);
    }
    return out;
  }
  case token_kind::sign:
    if (skip("(")) {
      if (skip(")")) return make(node_kind::list, next.line);
      auto out = expression_list(true);
      expect(")");
      return out;
    }
    if (sees("[")) return literal_list();
    if (sees("{")) return literal_dict();
    break;
  default:
    break;
  }
  fail(next.line, "expected an expression, found " + shown());
}

node_ptr parser::literal_list() {
  const auto at = take().line;
  std::vector<node_ptr> parts;
  while (!skip("]")) {
    if (!parts.empty()) expect(",");
    if (skip("]")) break;
    parts.push_back(expression());
  }
  return with(make(node_kind::list, at), std::move(parts));
}

node_ptr parser::literal_dict() {
  const auto at = take().line;
  std::vector<node_ptr> parts;
  while (!skip("}")) {
    if (!parts.empty()) expect(",");
    if (skip("}")) break;
    const auto& key = *parts.emplace_back(expression());
    if (key.kind == node_kind::constant && !key.constant.is(value::kind::string))
      fail(key.line, "a key of a dict must be a string");
    expect(":");
    parts.push_back(expression());
  }
  return with(make(node_kind::dict, at), std::move(parts));
}

node_ptr parser::members(node_ptr of) {
  for (;;) {
    const auto at = line();
    if (skip(".")) {
      if (peek().kind == token_kind::integer) {
        auto index = make(node_kind::constant, at);
        index->constant = value(integer_of(take()));
        of = with(make(node_kind::item, at), parts_of(std::move(of), std::move(index)));
        continue;
      }
      auto out = make(node_kind::attribute, at);
      out->name = identifier("a name after '.'");
      of = with(std::move(out), parts_of(std::move(of)));
    } else if (sees("[")) {
      of = subscript(std::move(of));
    } else if (sees("(")) {
      auto out = make(node_kind::call, at);
      auto parts = parts_of(std::move(of));
      arguments(*out, parts);
      of = with(std::move(out), std::move(parts));
    } else {
      return of;
    }
  }
}

node_ptr parser::subscript(node_ptr of) {
  const auto at = take().line;
  node_ptr bounds[3];
  std::size_t colons = 0;
  for (;;) {
    if (!sees(":") && !sees("]")) bounds[colons] = expression();
    if (!sees(":") || colons == 2) break;
    take();
    ++colons;
  }
  expect("]");
  if (colons == 0) {
    if (!bounds[0]) fail(at, "expected an index between '[' and ']'");
    return with(make(node_kind::item, at), parts_of(std::move(of), std::move(bounds[0])));
  }
  return with(make(node_kind::slice, at),
              parts_of(std::move(of), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])));
}

node_ptr parser::filters(node_ptr of) {
  for (;;) {
    const auto at = line();
    if (skip("|")) {
      auto out = make(node_kind::filter, at);
      out->name = identifier("the name of a filter");
      auto parts = parts_of(std::move(of));
      if (sees("(")) arguments(*out, parts);
      of = with(std::move(out), std::move(parts));
    } else if (skip_word("is")) {
      of = test(std::move(of));
    } else if (sees("(")) {
      auto out = make(node_kind::call, at);
      auto parts = parts_of(std::move(of));
      arguments(*out, parts);
      of = with(std::move(out), std::move(parts));
    } else {
      return of;
    }
  }
}

void parser::compares_with_none(const node& what) {
  if (what.kind == node_kind::name || what.kind == node_kind::attribute)
    names_.compared_with_none.insert(what.name);
  else if (what.kind == node_kind::item && what.parts[1]->kind == node_kind::constant &&
           what.parts[1]->constant.is(value::kind::string))
    names_.compared_with_none.insert(what.parts[1]->constant.as_text().bytes());
}

node_ptr parser::test(node_ptr of) {
  auto out = make(node_kind::test, line());
  out->negated = skip_word("not");
  out->name = identifier("the name of a test");
  if (out->name == "none") compares_with_none(*of);
  auto parts = parts_of(std::move(of));
  const auto kind = peek().kind;
  if (sees("(")) {
    arguments(*out, parts);
  } else if ((kind == token_kind::name && !is_reserved(peek().text)) || kind == token_kind::string ||
             kind == token_kind::integer || kind == token_kind::real || sees("[") || sees("{")) {
    parts.push_back(members(primary())); // `x is divisibleby 3`
    out->argument_names.emplace_back();
  }
  return with(std::move(out), std::move(parts));
}

void parser::arguments(node& into, std::vector<node_ptr>& parts) {
  expect("(");
  bool first = true;
  while (!skip(")")) {
    if (!std::exchange(first, false)) expect(",");
    if (skip(")")) break;
    std::string name;
    if (sees("*") || sees("**")) {
      name = take().text;
    } else if (peek().kind == token_kind::name && sees("=", 1)) {
      name = take().text;
      take();
    }
    into.argument_names.push_back(std::move(name));
    parts.push_back(expression());
  }
}

} // namespace godwit::protocols::jinja
