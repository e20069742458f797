#include "jinja/interpreter.hpp"
#include "jinja/time_text.hpp"

#include <utility>

namespace godwit::protocols::jinja {

namespace {

using kind = value::kind;

value number(std::size_t n) { return value(static_cast<std::int64_t>(n)); }

/// Pairs of a dict, or of a list of pairs.
std::vector<dict_entry> entries_of(interpreter& machine, const value& of) {
  if (of.is(kind::dict)) {
    machine.charge(of.entries().size());
    return of.entries();
  }
  std::vector<dict_entry> out;
  for (const auto& pair : machine.iterate(of)) {
    const auto both = machine.iterate(pair);
    if (both.size() != 2) machine.fail("a dict is made of pairs of key and value");
    out.push_back({machine.string(both[0], "a key of a dict"), both[1]});
  }
  return out;
}

std::string_view parameters_of(std::string_view function) {
  if (function == "range") return "start stop step";
  if (function == "raise_exception") return "message";
  if (function == "strftime_now") return "format";
  if (function == "joiner") return "sep";
  return "*";
}

} // namespace

value interpreter::call(const value& callee, call_arguments& with) {
  charge(1);
  if (!callee.is(kind::object)) fail("what is called is no function");
  auto& thing = *callee.as_object();
  switch (thing.type) {
  case object::kind::function:
    return call_function(thing.name, with);
  case object::kind::macro:
    return call_macro(thing, with);
  case object::kind::joiner:
    check_arguments("a joiner", with, "");
    return thing.index++ == 0 ? value::markup({}) : thing.held[0];
  case object::kind::loop:
    fail("recursive loops are not supported");
  default:
    fail("what is called is no function");
  }
}

value interpreter::call_function(std::string_view name, call_arguments& with) {
  check_arguments(name, with, parameters_of(name));
  const auto argument = [&](std::size_t place, std::string_view called) -> const value& {
    const auto* given = with.get(place, called);
    if (given == nullptr) fail(std::string(name) + "() lacks its argument '" + std::string(called) + "'");
    return *given;
  };
  if (name == "raise_exception") {
    const auto message = shown(argument(0, "message"));
    fail(message.bytes().substr(0, 1000), true);
  }
  if (name == "strftime_now") {
    const auto& format = string(argument(0, "format"), "the format");
    charge(format.size());
    return make(text(time_text(options_.now_s, format.bytes()), format.all_markup()));
  }
  if (name == "range") {
    const auto first = integer(argument(0, "start"), "an argument of range()");
    std::int64_t from = 0;
    auto to = first;
    std::int64_t step = 1;
    if (const auto* second = with.get(1, "stop")) {
      from = first;
      to = integer(*second, "an argument of range()");
    }
    if (const auto* third = with.get(2, "step")) step = integer(*third, "an argument of range()");
    if (step == 0) fail("the step of range() is 0");
    std::vector<value> items;
    for (auto at = from; step > 0 ? at < to : at > to;) {
      if (items.size() >= limits().range_max)
        fail("range() has more than " + std::to_string(limits().range_max) + " numbers");
      items.push_back(value(at));
      if (__builtin_add_overflow(at, step, &at)) break;
    }
    charge(items.size());
    return make(std::move(items));
  }
  if (name == "namespace" || name == "dict") {
    if (with.positional.size() > 1) fail(std::string(name) + "() has too many arguments");
    std::vector<dict_entry> entries;
    if (!with.positional.empty()) entries = entries_of(*this, with.positional[0]);
    for (auto& [key, held] : with.named) entries.push_back({text(key, false), std::move(held)}); // ** may bring any
    auto all = make_dict(std::move(entries));
    if (name == "dict") return all;
    object space(object::kind::name_space);
    for (const auto& entry : all.entries()) space.attributes.emplace_back(entry.key.bytes(), entry.held);
    return make_object(std::move(space));
  }
  if (name == "joiner") {
    object joiner(object::kind::joiner);
    const auto* separator = with.get(0, "sep");
    joiner.held.push_back(separator != nullptr ? *separator : value::markup(", "));
    return make_object(std::move(joiner));
  }
  if (with.positional.empty() || !with.named.empty()) fail("cycler() goes through its arguments without a name");
  object cycler(object::kind::cycler);
  cycler.held = with.positional;
  return make_object(std::move(cycler));
}

value interpreter::loop_attribute(const object& loop, std::string_view name) {
  const auto at = loop.index;
  if (name == "index") return number(at + 1);
  if (name == "index0") return number(at);
  if (name == "revindex") return number(loop.count - at);
  if (name == "revindex0") return number(loop.count - at - 1);
  if (name == "first") return value(at == 0);
  if (name == "last") return value(at + 1 == loop.count);
  if (name == "length") return number(loop.count);
  if (name == "depth") return number(1); // it counts recursive loops, which are not supported
  if (name == "depth0") return number(0);
  if (loop.items.is(kind::list)) {
    const auto& items = loop.items.items();
    if (name == "previtem") return at > 0 ? items[at - 1] : value();
    if (name == "nextitem") return at + 1 < items.size() ? items[at + 1] : value();
  }
  return {};
}

value interpreter::call_method(const value& of, std::string_view name, call_arguments& with) {
  charge(1);
  if (of.is(kind::string)) return string_method(of, name, with);
  const auto copy = [&] {
    check_arguments(name, with, "");
    return of;
  };
  if (of.is(kind::list)) {
    const auto* what = with.get(0, "value");
    if ((name == "index" || name == "count") && what != nullptr) {
      check_arguments(name, with, "value");
      std::size_t count = 0;
      for (std::size_t i = 0; i < of.items().size(); ++i) {
        if (!equal(of.items()[i], *what)) continue;
        if (name == "index") return number(i);
        ++count;
      }
      if (name == "index") fail("the list has no such item");
      return number(count);
    }
    if (name == "copy") return copy();
    for (const std::string_view changing : {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"})
      if (name == changing) fail("lists cannot be changed ('" + std::string(name) + "'); use +");
  }
  if (of.is(kind::dict)) {
    if (name == "get") {
      check_arguments(name, with, "key default");
      const auto* key = with.get(0, "key");
      const auto* otherwise = with.get(1, "default");
      if (key == nullptr) fail("get() lacks its key");
      if (key->is(kind::string)) charge_lookup(of.entries().size(), key->as_text().size());
      const auto* found = key->is(kind::string) ? of.find(key->as_text().bytes()) : nullptr;
      return found != nullptr ? *found : otherwise != nullptr ? *otherwise : value(none_t{});
    }
    if (name == "items" || name == "keys" || name == "values") {
      check_arguments(name, with, "");
      std::vector<value> out;
      charge(2 * of.entries().size());
      for (const auto& entry : of.entries()) {
        if (name == "values")
          out.push_back(entry.held);
        else if (name == "keys")
          out.push_back(make(entry.key));
        else
          out.push_back(make(std::vector<value>{make(entry.key), entry.held}));
      }
      return make(std::move(out));
    }
    if (name == "copy") return copy();
    for (const std::string_view changing : {"update", "pop", "popitem", "clear", "setdefault"})
      if (name == changing) fail("dicts cannot be changed ('" + std::string(name) + "')");
  }
  if (of.is(kind::object)) {
    auto& thing = *of.as_object();
    if (thing.type == object::kind::loop && name == "cycle") {
      if (with.positional.empty()) fail("loop.cycle() has nothing to go through");
      return with.positional[thing.index % with.positional.size()];
    }
    if (thing.type == object::kind::loop && name == "changed") {
      bool same = thing.held.size() == with.positional.size() && !thing.held.empty();
      for (std::size_t i = 0; same && i < thing.held.size(); ++i) same = equal(thing.held[i], with.positional[i]);
      thing.held = with.positional;
      return value(!same);
    }
    if (thing.type == object::kind::cycler && (name == "next" || name == "reset")) check_arguments(name, with, "");
    if (thing.type == object::kind::cycler && name == "next") return thing.held[thing.index++ % thing.held.size()];
    if (thing.type == object::kind::cycler && name == "reset") {
      thing.index = 0;
      return value(none_t{});
    }
  }
  const auto held = attribute(of, name);
  if (!held.defined()) fail("there is no method '" + std::string(name.substr(0, 60)) + "' here");
  return call(held, with);
}

} // namespace godwit::protocols::jinja
