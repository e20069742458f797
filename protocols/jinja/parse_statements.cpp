#include "jinja/parser.hpp"

#include <utility>

namespace godwit::protocols::jinja {

node_ptr parser::whole() {
  auto out = block({});
  if (peek().kind != token_kind::end) fail(line(), "unexpected " + shown());
  return out;
}

/// Statements up to one of `ends`, whose {% is not consumed; without `ends` up to the end.
node_ptr parser::block(std::initializer_list<std::string_view> ends) {
  const level here(*this);
  const auto at = line();
  std::vector<node_ptr> parts;
  for (;;) {
    const auto kind = peek().kind;
    if (kind == token_kind::text) {
      auto out = make(node_kind::output, line());
      auto constant = make(node_kind::constant, line());
      constant->constant = value::markup(take().text);
      parts.push_back(with(std::move(out), parts_of(std::move(constant))));
    } else if (kind == token_kind::output_begin) {
      auto out = make(node_kind::output, take().line);
      out = with(std::move(out), parts_of(expression_list(true)));
      expect(token_kind::output_end, "'}}'");
      parts.push_back(std::move(out));
    } else if (kind == token_kind::block_begin) {
      for (const auto end : ends)
        if (sees_word(end, 1)) return with(make(node_kind::block, at), std::move(parts));
      if (auto out = statement()) parts.push_back(std::move(out));
    } else {
      if (ends.size() > 0) fail(at, "expected '{% " + std::string(*std::prev(ends.end())) + " %}', found " + shown());
      return with(make(node_kind::block, at), std::move(parts));
    }
  }
}

void parser::end_of_block(std::string_view word) {
  expect(token_kind::block_begin, "'{%'");
  expect_word(word);
  expect(token_kind::block_end, "'%}'");
}

/// Null for what leaves nothing behind.
node_ptr parser::statement() {
  take();
  const auto at = line();
  const auto name = identifier("a statement");
  if (name == "if") return if_statement();
  if (name == "for") return for_statement();
  if (name == "set") return set_statement();
  if (name == "macro") return macro_statement();
  if (name == "call") return call_statement();
  if (name == "filter") return filter_statement();
  if (name == "break" || name == "continue") {
    if (loops_ == 0) fail(at, "'" + name + "' outside a loop");
    expect(token_kind::block_end, "'%}'");
    return make(name == "break" ? node_kind::break_ : node_kind::continue_, at);
  }
  if (name == "generation") { // marks for training which text the model wrote
    expect(token_kind::block_end, "'%}'");
    auto out = block({"endgeneration"});
    end_of_block("endgeneration");
    return out;
  }
  if (name == "do") {
    auto out = make(node_kind::set, at);
    out = with(std::move(out), parts_of(expression_list(true)));
    expect(token_kind::block_end, "'%}'");
    return out;
  }
  fail(at, "'" + name.substr(0, 40) + "' is not a statement of chat templates");
}

node_ptr parser::if_statement() {
  const level here(*this);
  const auto at = line();
  std::vector<node_ptr> parts;
  do {
    if (parts.size() / 2 >= limits_.chain_max) fail(line(), "an 'if' has too many branches");
    parts.push_back(expression_list(true));
    expect(token_kind::block_end, "'%}'");
    parts.push_back(block({"elif", "else", "endif"}));
    take();
  } while (skip_word("elif"));
  if (skip_word("else")) {
    expect(token_kind::block_end, "'%}'");
    parts.push_back(block({"endif"}));
    end_of_block("endif");
  } else {
    take();
    expect(token_kind::block_end, "'%}'");
  }
  return with(make(node_kind::if_, at), std::move(parts));
}

std::vector<std::string> parser::targets(bool attributes) {
  std::vector<std::string> out;
  const bool bracket = skip("(");
  do {
    if (!out.empty() && peek().kind != token_kind::name) break; // a comma at the end
    auto name = identifier("a variable");
    if (attributes && skip(".")) {
      names_.read.insert(name);
      name += "." + identifier("an attribute");
    }
    out.push_back(std::move(name));
  } while (skip(","));
  if (bracket) expect(")");
  return out;
}

node_ptr parser::for_statement() {
  auto out = make(node_kind::for_, line());
  out->targets = targets(false);
  expect_word("in");
  auto iterable = expression_list(false);
  node_ptr filter;
  if (skip_word("if")) filter = expression();
  if (sees_word("recursive")) fail(line(), "recursive loops are not supported");
  expect(token_kind::block_end, "'%}'");
  ++loops_;
  auto body = block({"else", "endfor"});
  --loops_;
  take();
  node_ptr otherwise;
  if (skip_word("else")) {
    expect(token_kind::block_end, "'%}'");
    otherwise = block({"endfor"});
    end_of_block("endfor");
  } else {
    take();
    expect(token_kind::block_end, "'%}'");
  }
  return with(std::move(out), parts_of(std::move(iterable), std::move(filter), std::move(body), std::move(otherwise)));
}

/// Stands for the block's text in the filters applied to it.
node_ptr parser::hole() const {
  auto out = make(node_kind::name, line());
  out->name = block_text_name;
  return out;
}

node_ptr parser::set_statement() {
  auto out = make(node_kind::set, line());
  out->targets = targets(true);
  if (skip("=")) {
    out = with(std::move(out), parts_of(expression_list(true)));
    expect(token_kind::block_end, "'%}'");
    return out;
  }
  out->kind = node_kind::set_block;
  if (out->targets.size() != 1) fail(out->line, "a block can be set to one variable only");
  node_ptr filter;
  if (sees("|")) filter = filters(hole());
  expect(token_kind::block_end, "'%}'");
  auto body = block({"endset"});
  end_of_block("endset");
  return with(std::move(out), parts_of(std::move(body), std::move(filter)));
}

void parser::parameters(node& into, std::vector<node_ptr>& defaults) {
  expect("(");
  while (!skip(")")) {
    if (!into.targets.empty()) expect(",");
    if (skip(")")) break;
    into.targets.push_back(identifier("a parameter"));
    defaults.push_back(skip("=") ? expression() : nullptr);
  }
}

namespace {

bool reads(const node& of, std::string_view name) {
  if (of.kind == node_kind::name && of.name == name) return true;
  return std::ranges::any_of(of.parts, [&](const node_ptr& part) { return part && reads(*part, name); });
}

std::vector<std::string> special_names_in(const node& body) {
  std::vector<std::string> out;
  for (const auto* name : {"varargs", "kwargs", "caller"})
    if (reads(body, name)) out.emplace_back(name);
  return out;
}

} // namespace

node_ptr parser::macro_statement() {
  auto out = make(node_kind::macro, line());
  out->name = identifier("the name of a macro");
  std::vector<node_ptr> parts(1);
  parameters(*out, parts);
  expect(token_kind::block_end, "'%}'");
  const auto loops = std::exchange(loops_, 0);
  parts[0] = block({"endmacro"});
  loops_ = loops;
  end_of_block("endmacro");
  out->argument_names = special_names_in(*parts[0]);
  return with(std::move(out), std::move(parts));
}

node_ptr parser::call_statement() {
  auto out = make(node_kind::call_block, line());
  std::vector<node_ptr> parts(1);
  if (sees("(")) parameters(*out, parts);
  auto call = members(primary());
  if (call->kind != node_kind::call) fail(out->line, "expected a call after '{% call'");
  expect(token_kind::block_end, "'%}'");
  const auto loops = std::exchange(loops_, 0);
  parts[0] = block({"endcall"});
  loops_ = loops;
  end_of_block("endcall");
  out->argument_names = special_names_in(*parts[0]);
  parts.push_back(std::move(call));
  return with(std::move(out), std::move(parts));
}

node_ptr parser::filter_statement() {
  auto out = make(node_kind::filter_block, line());
  auto filter = make(node_kind::filter, line());
  filter->name = identifier("the name of a filter");
  std::vector<node_ptr> operand;
  operand.push_back(hole());
  if (sees("(")) arguments(*filter, operand);
  auto chain = filters(with(std::move(filter), std::move(operand)));
  expect(token_kind::block_end, "'%}'");
  auto body = block({"endfilter"});
  end_of_block("endfilter");
  return with(std::move(out), parts_of(std::move(body), std::move(chain)));
}

} // namespace godwit::protocols::jinja
