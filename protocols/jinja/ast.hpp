#pragma once

#include <godwit/protocols/jinja/template.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::protocols::jinja {

/// Thrown below compile() and render(), which catch it.
struct failure {
  error what;
};
[[noreturn]] inline void fail(std::uint32_t line, std::string message, bool raised = false) {
  throw failure{{std::move(message), line, raised}};
}

enum class node_kind : std::uint8_t {
  // expressions
  constant,  // constant
  name,      // name
  list,      // parts: items
  dict,      // parts: key, value, key, value, ...
  attribute, // parts: object; name
  item,      // parts: object, index
  slice,     // parts: object, from, to, step (null where not given)
  call,      // parts: callee, arguments...; argument_names
  filter,    // parts: operand, arguments...; name, argument_names
  test,      // parts: operand, arguments...; name, negated
  unary,     // parts: operand; name: "-", "+", "not"
  binary,    // parts: left, right; name: the operator
  joined,    // parts: the operands of ~
  compare,   // parts: operands; argument_names: the operators between them
  both,      // and
  either,    // or
  choice,    // parts: condition, then, else (null: undefined)
  // statements
  block,        // parts: statements
  output,       // parts: expression
  if_,          // parts: condition, then, condition, then, ..., and the block of `else` where there is one
  for_,         // targets; parts: iterable, filter (or null), body, else (or null)
  set,          // targets; parts: value
  set_block,    // targets; parts: body, filter (or null) of the variable block_text_name
  macro,        // name, targets: parameters; parts: body, then a default for each parameter (null: none);
                // argument_names: which of varargs, kwargs and caller the body reads
  call_block,   // as a macro without a name; the last part is the call
  filter_block, // parts: body, filter of the variable block_text_name
  break_,
  continue_,
};

/// One node of a parsed template.
struct compiled_template::node {
  node_kind kind = node_kind::block;
  bool negated = false; // of a test
  std::uint32_t line = 0;
  std::uint32_t height = 1; // of the tree below, itself included
  std::string name;
  value constant;
  std::vector<std::unique_ptr<node>> parts;
  std::vector<std::string> argument_names; // of the last arguments: "" positional, "*" and "**" unpacked, else by name
  std::vector<std::string> targets;        // "x", or "ns.x" for an attribute of a namespace
};

/// The variable that holds a block's text for its filters; no template can spell it.
inline constexpr std::string_view block_text_name = " block";

using node = compiled_template::node;
using node_ptr = std::unique_ptr<node>;

} // namespace godwit::protocols::jinja
