#include "jinja/interpreter.hpp"

#include <algorithm>
#include <utility>

namespace godwit::protocols::jinja {

const value* interpreter::find(const scope& in, std::string_view name) {
  std::size_t among = 0;
  const value* found = nullptr;
  for (const auto* at = &in; at != nullptr && found == nullptr; at = at->parent) {
    among += at->own.size() + 1;
    for (const auto& [known, held] : at->own)
      if (known == name) {
        found = &held;
        break;
      }
  }
  charge_lookup(among, name.size());
  return found;
}

void interpreter::set(scope& in, std::string_view name, value to) {
  charge_lookup(in.own.size(), name.size());
  for (auto& [known, held] : in.own)
    if (known == name) {
      held = std::move(to);
      return;
    }
  in.own.emplace_back(name, std::move(to));
}

interpreter::interpreter(const render_options& options, const variables& given) : options_(options) {
  globals_ = &new_scope(nullptr);
  for (const std::string_view name :
       {"range", "namespace", "dict", "raise_exception", "strftime_now", "joiner", "cycler"}) {
    object function(object::kind::function);
    function.name = name;
    set(*globals_, name, make_object(std::move(function)));
  }
  for (const auto& [name, held] : given) set(*globals_, name, held);
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

void interpreter::charge_copies(const text& of, std::uint64_t times) {
  charge_bytes(times * (of.size() + of.runs().size() * sizeof(text::run)));
}

void interpreter::charge_lookup(std::size_t among, std::size_t name_bytes) {
  charge(among * (1 + name_bytes / 64) / 8);
}

void interpreter::emit(text& out, const text& bytes) {
  if (out.size() + bytes.size() > limits().output_bytes_max)
    fail("the template writes more than " + std::to_string(limits().output_bytes_max) + " bytes");
  charge_copies(bytes);
  out.append(bytes);
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
  case node_kind::if_:
    return execute_if(what, in, out);
  case node_kind::for_:
    return execute_for(what, in, out);
  case node_kind::set:
    assign(what.targets, evaluate(*what.parts[0], in), in);
    return flow::on;
  case node_kind::set_block: {
    text written;
    if (const auto next = execute(*what.parts[0], new_scope(&in), written); next != flow::on) return next;
    auto block = make(std::move(written));
    if (what.parts[1]) {
      auto& inner = new_scope(&in);
      set(inner, block_text_name, std::move(block));
      block = evaluate(*what.parts[1], inner);
    }
    assign(what.targets, std::move(block), in);
    return flow::on;
  }
  case node_kind::filter_block: {
    text written;
    if (const auto next = execute(*what.parts[0], new_scope(&in), written); next != flow::on) return next;
    auto& inner = new_scope(&in);
    set(inner, block_text_name, make(std::move(written)));
    emit(out, shown(evaluate(*what.parts[1], inner)));
    return flow::on;
  }
  case node_kind::macro: {
    object macro(object::kind::macro);
    macro.name = what.name;
    macro.code = &what;
    macro.around = &in;
    set(in, what.name, make_object(std::move(macro)));
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

interpreter::flow interpreter::execute_if(const node& what, scope& in, text& out) {
  std::size_t at = 0;
  while (at + 1 < what.parts.size() && !truth(evaluate(*what.parts[at], in))) at += 2;
  if (at >= what.parts.size()) return flow::on;
  return execute(*what.parts[std::min(at + 1, what.parts.size() - 1)], in, out);
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
  if (targets.size() == 1) return set(in, targets[0], item);
  const auto parts = iterate(item);
  if (parts.size() != targets.size())
    fail(std::to_string(parts.size()) + " values for " + std::to_string(targets.size()) + " variables");
  for (std::size_t i = 0; i < parts.size(); ++i) set(in, targets[i], parts[i]);
}

void interpreter::assign(const std::vector<std::string>& targets, value to, scope& in) {
  if (targets.empty()) return; // {% do %}
  const auto set_one = [&](const std::string& target, value one) {
    const auto dot = target.find('.');
    if (dot == std::string::npos) return set(in, target, std::move(one));
    const auto* found = find(in, std::string_view(target).substr(0, dot));
    if (found == nullptr || !found->is(value::kind::object) || found->as_object()->type != object::kind::name_space)
      fail("attributes can be set on namespaces only, not on '" + target.substr(0, dot) + "'");
    auto& attributes = found->as_object()->attributes;
    charge_lookup(attributes.size(), target.size());
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
  auto items = evaluate(*what.parts[0], in);
  if (!items.is(value::kind::list)) items = value(iterate(items)); // a list is gone through as it is
  auto& inner = new_scope(&in);
  if (what.parts[1]) {
    std::vector<value> kept;
    for (const auto& item : items.items()) {
      bind(what.targets, item, inner);
      if (truth(evaluate(*what.parts[1], inner))) kept.push_back(item);
    }
    items = value(std::move(kept));
  }
  const auto loop = make_object(object(object::kind::loop));
  auto& place = *loop.as_object();
  place.items = items;
  place.count = items.items().size();
  bool finished = false; // a round
  for (; place.index < place.count; ++place.index) {
    charge(1);
    inner.own.clear(); // what one round sets, the next does not see
    set(inner, "loop", loop);
    bind(what.targets, items.items()[place.index], inner);
    const auto next = execute(*what.parts[2], inner, out);
    if (next == flow::stop) break;
    finished = finished || next == flow::on;
  }
  place.items = value(); // the object lives on until the rendering ends
  if (place.index > 0 && place.index == place.count) --place.index;
  if (finished || !what.parts[3]) return flow::on;
  inner.own.clear();
  return execute(*what.parts[3], inner, out);
}

value interpreter::call_macro(const object& macro, call_arguments& with) {
  if (calls_ >= limits().calls_max) fail("macros call each other more than " + std::to_string(calls_) + " levels deep");
  ++calls_;
  const auto& code = *macro.code;
  const auto& parameters = code.targets;
  const auto reads = [&](std::string_view name) {
    return std::ranges::find(code.argument_names, name) != code.argument_names.end();
  };
  charge(with.positional.size() + with.named.size() * (1 + parameters.size() / 4));
  auto& inner = new_scope(macro.around);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto* given = with.get(i, parameters[i]);
    const auto* otherwise = code.parts[i + 1].get();
    if (given != nullptr)
      set(inner, parameters[i], *given);
    else
      set(inner, parameters[i], otherwise != nullptr ? evaluate(*otherwise, inner) : value());
  }
  std::vector<value> further;
  for (std::size_t i = parameters.size(); i < with.positional.size(); ++i) further.push_back(with.positional[i]);
  if (!further.empty() && !reads("varargs")) fail(std::string(macro.name) + "() has too many arguments");
  value caller;
  std::vector<dict_entry> unknown;
  for (auto& [name, held] : with.named) {
    const auto at = static_cast<std::size_t>(std::ranges::find(parameters, name) - parameters.begin());
    if (at < parameters.size() && at >= with.positional.size()) continue; // bound above
    if (name == "caller" && reads("caller")) {
      caller = held;
      continue;
    }
    if (!reads("kwargs")) fail(std::string(macro.name) + "() takes no argument '" + name.substr(0, 60) + "'");
    unknown.push_back({text(name, false), held});
  }
  if (std::ranges::find(parameters, "caller") == parameters.end()) set(inner, "caller", std::move(caller));
  set(inner, "varargs", make(std::move(further)));
  set(inner, "kwargs", make_dict(std::move(unknown)));
  text written;
  static_cast<void>(execute(*code.parts[0], inner, written)); // the parser keeps break and continue within
  --calls_;
  return make(std::move(written));
}

value interpreter::evaluate(const node& what, scope& in) {
  const depth_guard deeper(*this);
  charge(1);
  line_ = what.line;
  switch (what.kind) {
  case node_kind::constant:
    return what.constant;
  case node_kind::name: {
    const auto* found = find(in, what.name);
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
  case node_kind::joined:
    return evaluate_joined(what, in);
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
