#pragma once

#include "jinja/ast.hpp"
#include "jinja/lexer.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace godwit::protocols::jinja {

/// Makes a template's tree of its tokens: expressions in parse_expressions.cpp, statements in parse_statements.cpp.
/// `names` receives what it asks about. Throws `failure`.
class parser {
public:
  parser(std::vector<token> tokens, const source_limits& limits, compiled_template::names& names)
      : tokens_(std::move(tokens)), limits_(limits), names_(names) {}

  [[nodiscard]] node_ptr whole();

private:
  template <class... Nodes> static std::vector<node_ptr> parts_of(Nodes... nodes) {
    std::vector<node_ptr> parts;
    (parts.push_back(std::move(nodes)), ...);
    return parts;
  }
  /// Counts how deep the parser is, for as long as it lives.
  class level {
  public:
    explicit level(parser& of) : of_(of) {
      if (++of_.depth_ > of_.limits_.nesting_max) fail(of_.line(), "nested too deeply");
    }
    ~level() { --of_.depth_; }
    level(const level&) = delete;
    level& operator=(const level&) = delete;

  private:
    parser& of_;
  };

  // The cursor.
  [[nodiscard]] const token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  [[nodiscard]] std::uint32_t line() const { return peek().line; }
  token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  [[nodiscard]] bool sees(std::string_view sign, std::size_t ahead = 0) const {
    return peek(ahead).kind == token_kind::sign && peek(ahead).text == sign;
  }
  [[nodiscard]] bool sees_word(std::string_view word, std::size_t ahead = 0) const {
    return peek(ahead).kind == token_kind::name && peek(ahead).text == word;
  }
  bool skip(std::string_view sign);
  bool skip_word(std::string_view word);
  void expect(std::string_view sign);
  void expect_word(std::string_view word);
  void expect(token_kind kind, const char* what);
  std::string identifier(const char* what);
  [[nodiscard]] std::string shown() const;

  [[nodiscard]] node_ptr make(node_kind kind, std::uint32_t at) const;
  /// Sets a node's parts and checks that the tree does not grow too high.
  node_ptr with(node_ptr of, std::vector<node_ptr> parts);

  // Expressions.
  node_ptr expression();                 ///< with `a if b else c`
  node_ptr expression_list(bool choice); ///< one, or several with commas: a list
  node_ptr either();
  node_ptr both();
  node_ptr negation();
  node_ptr comparison();
  node_ptr sum();
  node_ptr joined();
  node_ptr product();
  node_ptr sign_and_filters(bool filters = true);
  node_ptr power();
  node_ptr primary();
  node_ptr members(node_ptr of);
  node_ptr subscript(node_ptr of);
  node_ptr filters(node_ptr of);
  node_ptr test(node_ptr of);
  node_ptr literal_list();
  node_ptr literal_dict();
  void arguments(node& into, std::vector<node_ptr>& parts);

  // Statements.
  node_ptr block(std::initializer_list<std::string_view> ends);
  node_ptr statement();
  node_ptr if_statement();
  node_ptr for_statement();
  node_ptr set_statement();
  node_ptr macro_statement();
  node_ptr call_statement();
  node_ptr filter_statement();
  void parameters(node& into, std::vector<node_ptr>& defaults);
  std::vector<std::string> targets(bool attributes);
  void compares_with_none(const node& what);
  [[nodiscard]] node_ptr hole() const;
  void end_of_block(std::string_view word);

  std::vector<token> tokens_;
  const source_limits& limits_;
  compiled_template::names& names_;
  std::size_t at_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t loops_ = 0; ///< for statements that are open here
};

} // namespace godwit::protocols::jinja
