#include "jinja/interpreter.hpp"

#include <utility>

namespace godwit::protocols::jinja {

const value* scope::find(std::string_view name) const {
  for (const auto* at = this; at != nullptr; at = at->parent)
    for (const auto& [known, held] : at->own)
      if (known == name) return &held;
  return nullptr;
}

void scope::set(std::string_view name, value to) {
  for (auto& [known, held] : own)
    if (known == name) {
      held = std::move(to);
      return;
    }
  own.emplace_back(name, std::move(to));
}

interpreter::interpreter(const render_options& options, const variables& given) : options_(options) {
  globals_ = &new_scope(nullptr);
  for (const std::string_view name :
       {"range", "namespace", "dict", "raise_exception", "strftime_now", "joiner", "cycler"}) {
    object function(object::kind::function);
    function.name = name;
    globals_->set(name, make_object(std::move(function)));
  }
  for (const auto& [name, held] : given) globals_->set(name, held);
}

interpreter::~interpreter() {
  // Apart first, then freed: a chain of them would be freed one within the other, as deep as it is long.
  for (const auto& thing : objects_) {
    thing->attributes.clear();
    thing->held.clear();
    thing->items = value();
  }
}

text interpreter::run(const node& root) {
  text out;
  static_cast<void>(execute(root, new_scope(globals_), out));
  return out;
}

scope& interpreter::new_scope(const scope* parent) {
  charge(8);
  scopes_.emplace_back();
  scopes_.back().parent = parent;
  return scopes_.back();
}

void interpreter::charge(std::uint64_t steps) {
  steps_ += steps;
  if (steps_ > limits().steps_max)
    fail("the template takes more than " + std::to_string(limits().steps_max) + " steps");
}

void interpreter::charge_bytes(std::uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > limits().bytes_max)
    fail("the template makes more than " + std::to_string(limits().bytes_max) + " bytes of text");
}

void interpreter::emit(text& out, const text& bytes) {
  if (out.size() + bytes.size() > limits().output_bytes_max)
    fail("the template writes more than " + std::to_string(limits().output_bytes_max) + " bytes");
  charge_bytes(bytes.size());
  out.append(bytes);
}

text interpreter::captured(const node& body, scope& in) {
  text out;
  static_cast<void>(execute(body, in, out)); // break and continue do not leave a block: the parser sees to it
  return out;
}

interpreter::flow interpreter::execute(const node& what, scope& in, text& out) {
  const depth_guard deeper(*this);
  charge(1);
  line_ = what.line;
  switch (what.kind) {
  case node_kind::block:
    for (const auto& part : what.parts)
      if (const auto next = execute(*part, in, out); next != flow::on) return next;
    return flow::on;
  case node_kind::output: {
    const auto shows = evaluate(*what.parts[0], in);
    emit(out, shows.is(value::kind::string) ? shows.as_text() : shown(shows));
    return flow::on;
  }
  case node_kind::if_: {
    const auto* branch = truth(evaluate(*what.parts[0], in)) ? what.parts[1].get() : what.parts[2].get();
    return branch != nullptr ? execute(*branch, in, out) : flow::on;
  }
  case node_kind::for_:
    return execute_for(what, in, out);
  case node_kind::set:
    assign(what.targets, evaluate(*what.parts[0], in), in);
    return flow::on;
  case node_kind::set_block: {
    auto block = make(captured(*what.parts[0], new_scope(&in)));
    if (what.parts[1]) {
      auto& inner = new_scope(&in);
      inner.set(block_text_name, std::move(block));
      block = evaluate(*what.parts[1], inner);
    }
    assign(what.targets, std::move(block), in);
    return flow::on;
  }
  case node_kind::filter_block: {
    auto& inner = new_scope(&in);
    inner.set(block_text_name, make(captured(*what.parts[0], new_scope(&in))));
    emit(out, shown(evaluate(*what.parts[1], inner)));
    return flow::on;
  }
  case node_kind::macro: {
    object macro(object::kind::macro);
    macro.name = what.name;
    macro.code = &what;
    macro.around = &in;
    in.set(what.name, make_object(std::move(macro)));
    return flow::on;
  }
  case node_kind::call_block:
    execute_call_block(what, in, out);
    return flow::on;
  case node_kind::break_:
    return flow::stop;
  case node_kind::continue_:
    return flow::next;
  default:
    fail("not a statement");
  }
}

void interpreter::execute_call_block(const node& what, scope& in, text& out) {
  const auto& call_node = *what.parts.back();
  object caller(object::kind::macro);
  caller.name = "caller";
  caller.code = &what;
  caller.around = &in;
  const auto callee = evaluate(*call_node.parts[0], in);
  auto with = arguments(call_node, in);
  with.named.emplace_back("caller", make_object(std::move(caller)));
  emit(out, shown(call(callee, with)));
}

void interpreter::bind(const std::vector<std::string>& targets, const value& item, scope& in) {
  if (targets.size() == 1) return in.set(targets[0], item);
  const auto parts = iterate(item);
  if (parts.size() != targets.size())
    fail(std::to_string(parts.size()) + " values for " + std::to_string(targets.size()) + " variables");
  for (std::size_t i = 0; i < parts.size(); ++i) in.set(targets[i], parts[i]);
}

void interpreter::assign(const std::vector<std::string>& targets, value to, scope& in) {
  if (targets.empty()) return; // {% do %}
  const auto set_one = [&](const std::string& target, value one) {
    const auto dot = target.find('.');
    if (dot == std::string::npos) return in.set(target, std::move(one));
    const auto* found = in.find(std::string_view(target).substr(0, dot));
    if (found == nullptr || !found->is(value::kind::object) || found->as_object()->type != object::kind::name_space)
      fail("attributes can be set on namespaces only, not on '" + target.substr(0, dot) + "'");
    auto& attributes = found->as_object()->attributes;
    for (auto& [known, held] : attributes)
      if (known == std::string_view(target).substr(dot + 1)) {
        held = std::move(one);
        return;
      }
    attributes.emplace_back(target.substr(dot + 1), std::move(one));
  };
  if (targets.size() == 1) return set_one(targets[0], std::move(to));
  const auto parts = iterate(to);
  if (parts.size() != targets.size())
    fail(std::to_string(parts.size()) + " values for " + std::to_string(targets.size()) + " variables");
  for (std::size_t i = 0; i < parts.size(); ++i) set_one(targets[i], parts[i]);
}

interpreter::flow interpreter::execute_for(const node& what, scope& in, text& out) {
  auto items = iterate(evaluate(*what.parts[0], in));
  auto& inner = new_scope(&in);
  if (what.parts[1]) {
    std::vector<value> kept;
    for (auto& item : items) {
      bind(what.targets, item, inner);
      if (truth(evaluate(*what.parts[1], inner))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    inner.own.clear();
    return what.parts[3] ? execute(*what.parts[3], inner, out) : flow::on;
  }
  object state(object::kind::loop);
  const auto loop = make_object(std::move(state));
  auto& place = *loop.as_object();
  place.items = value(std::move(items)); // never shown to the template as a whole
  const auto& list = place.items.items();
  for (place.index = 0; place.index < list.size(); ++place.index) {
    charge(1);
    inner.own.clear(); // what one round sets, the next does not see
    inner.set("loop", loop);
    bind(what.targets, list[place.index], inner);
    if (execute(*what.parts[2], inner, out) == flow::stop) break;
  }
  return flow::on;
}

value interpreter::call_macro(const object& macro, call_arguments& with) {
  if (calls_ >= limits().calls_max) fail("macros call each other more than " + std::to_string(calls_) + " levels deep");
  ++calls_;
  const auto& code = *macro.code;
  auto& inner = new_scope(macro.around);
  for (std::size_t i = 0; i < code.targets.size(); ++i) {
    const auto* given = with.get(i, code.targets[i]);
    const auto* otherwise = code.parts[i + 1].get();
    if (given != nullptr)
      inner.set(code.targets[i], *given);
    else
      inner.set(code.targets[i], otherwise != nullptr ? evaluate(*otherwise, inner) : value());
  }
  std::vector<value> further;
  for (std::size_t i = code.targets.size(); i < with.positional.size(); ++i) further.push_back(with.positional[i]);
  std::vector<dict_entry> unknown;
  for (auto& [name, held] : with.named) {
    if (name == "caller") {
      inner.set("caller", held);
      continue;
    }
    bool known = false;
    for (const auto& target : code.targets) known = known || target == name;
    if (!known) unknown.push_back({text(name, false), held});
  }
  inner.set("varargs", make(std::move(further)));
  inner.set("kwargs", make_dict(std::move(unknown)));
  auto out = make(captured(*code.parts[0], inner));
  --calls_;
  return out;
}

value interpreter::evaluate(const node& what, scope& in) {
  const depth_guard deeper(*this);
  charge(1);
  line_ = what.line;
  switch (what.kind) {
  case node_kind::constant:
    return what.constant;
  case node_kind::name: {
    const auto* found = in.find(what.name);
    return found != nullptr ? *found : value();
  }
  case node_kind::list: {
    std::vector<value> items;
    items.reserve(what.parts.size());
    for (const auto& part : what.parts) items.push_back(evaluate(*part, in));
    return make(std::move(items));
  }
  case node_kind::dict: {
    std::vector<dict_entry> entries;
    for (std::size_t i = 0; i < what.parts.size(); i += 2) {
      auto key = evaluate(*what.parts[i], in);
      entries.push_back({string(key, "a key of a dict"), evaluate(*what.parts[i + 1], in)});
    }
    return make_dict(std::move(entries));
  }
  case node_kind::attribute: {
    const auto of = evaluate(*what.parts[0], in);
    line_ = what.line;
    if (!of.defined())
      fail("there is nothing to take '" + what.name.substr(0, 60) + "' from: " + describe(*what.parts[0]) +
           " is undefined");
    return attribute(of, what.name);
  }
  case node_kind::item:
    return evaluate_item(what, in);
  case node_kind::slice:
    return evaluate_slice(what, in);
  case node_kind::call:
    return evaluate_call(what, in);
  case node_kind::filter: {
    const auto of = evaluate(*what.parts[0], in);
    auto with = arguments(what, in);
    line_ = what.line;
    return filter(what.name, of, with);
  }
  case node_kind::test: {
    const auto of = evaluate(*what.parts[0], in);
    auto with = arguments(what, in);
    line_ = what.line;
    return value(test(what.name, of, with) != what.negated);
  }
  case node_kind::unary:
    return evaluate_unary(what, in);
  case node_kind::binary: {
    const auto left = evaluate(*what.parts[0], in);
    const auto right = evaluate(*what.parts[1], in);
    line_ = what.line;
    return binary(what.name, left, right);
  }
  case node_kind::compare:
    return evaluate_compare(what, in);
  case node_kind::both: {
    auto left = evaluate(*what.parts[0], in);
    return truth(left) ? evaluate(*what.parts[1], in) : left;
  }
  case node_kind::either: {
    auto left = evaluate(*what.parts[0], in);
    return truth(left) ? left : evaluate(*what.parts[1], in);
  }
  case node_kind::choice: {
    const auto* branch = truth(evaluate(*what.parts[0], in)) ? what.parts[1].get() : what.parts[2].get();
    return branch != nullptr ? evaluate(*branch, in) : value();
  }
  default:
    fail("not an expression");
  }
}

} // namespace godwit::protocols::jinja
