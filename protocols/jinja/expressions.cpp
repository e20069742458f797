#include "jinja/interpreter.hpp"
#include "jinja/unicode.hpp"

#include <algorithm>
#include <utility>

namespace godwit::protocols::jinja {

const value* call_arguments::named_as(std::string_view name) const {
  for (const auto& [known, held] : named)
    if (known == name) return &held;
  return nullptr;
}

const value* call_arguments::get(std::size_t place, std::string_view name) const {
  return place < positional.size() ? &positional[place] : named_as(name);
}

const value* call_arguments::path(std::size_t place) const {
  const auto* given = get(place, "attribute");
  return given != nullptr && !given->is(value::kind::none) ? given : nullptr;
}

void interpreter::check_arguments(std::string_view function, const call_arguments& with,
                                  std::string_view parameters) const {
  if (parameters == "*") return;
  const auto next = [](std::string_view& rest) {
    const auto end = std::min(rest.find(' '), rest.size());
    const auto word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return word;
  };
  std::size_t count = 0;
  for (auto rest = parameters; !rest.empty(); ++count) static_cast<void>(next(rest));
  if (with.positional.size() + with.named.size() > count) fail(std::string(function) + "() has too many arguments");
  for (const auto& [name, held] : with.named) {
    std::size_t place = 0;
    auto rest = parameters;
    while (!rest.empty() && next(rest) != name) ++place;
    if (place < with.positional.size()) fail(std::string(function) + "() has two arguments '" + name + "'");
    if (place == count) fail(std::string(function) + "() takes no argument '" + name.substr(0, 60) + "'");
  }
}

call_arguments interpreter::arguments(const node& what, scope& in) {
  call_arguments out;
  const auto first = what.parts.size() - what.argument_names.size();
  for (std::size_t i = 0; i < what.argument_names.size(); ++i) {
    const auto& name = what.argument_names[i];
    auto given = evaluate(*what.parts[first + i], in);
    if (name.empty()) {
      out.positional.push_back(std::move(given));
    } else if (name == "*") {
      for (auto& item : iterate(given)) out.positional.push_back(std::move(item));
    } else if (name == "**") {
      if (!given.is(value::kind::dict)) fail("what stands after ** is no dict");
      charge(given.entries().size());
      for (const auto& entry : given.entries()) {
        charge_bytes(entry.key.size());
        out.named.emplace_back(entry.key.bytes(), entry.held);
      }
    } else {
      out.named.emplace_back(name, std::move(given));
    }
  }
  return out;
}

value interpreter::evaluate_call(const node& what, scope& in) {
  const auto& callee = *what.parts[0];
  if (callee.kind == node_kind::attribute) { // a method, unless a namespace or dict holds a function
    const auto of = evaluate(*callee.parts[0], in);
    line_ = callee.line;
    if (!of.defined())
      fail("there is nothing to call '" + callee.name + "' of: " + describe(*callee.parts[0]) + " is undefined");
    auto with = arguments(what, in);
    line_ = what.line;
    return call_method(of, callee.name, with);
  }
  const auto function = evaluate(callee, in);
  auto with = arguments(what, in);
  line_ = what.line;
  if (!function.defined()) fail(describe(callee) + " is undefined");
  return call(function, with);
}

value interpreter::evaluate_item(const node& what, scope& in) {
  const auto of = evaluate(*what.parts[0], in);
  const auto at = evaluate(*what.parts[1], in);
  line_ = what.line;
  if (!of.defined()) fail("there is nothing to take an item from: " + describe(*what.parts[0]) + " is undefined");
  if (at.is(value::kind::string)) return attribute(of, at.as_text().bytes());
  if (!at.is(value::kind::integer)) return {};
  auto index = at.as_integer();
  if (of.is(value::kind::list)) {
    const auto count = static_cast<std::int64_t>(of.items().size());
    if (index < 0) index += count;
    return index >= 0 && index < count ? of.items()[static_cast<std::size_t>(index)] : value();
  }
  if (of.is(value::kind::string)) {
    const auto& all = of.as_text();
    charge(1 + all.size() / 16);
    const auto count = static_cast<std::int64_t>(count_characters(all.bytes()));
    if (index < 0) index += count;
    if (index < 0 || index >= count) return {};
    const auto from = character_offset(all.bytes(), static_cast<std::size_t>(index));
    return make(all.slice(from, from + character_bytes(all.bytes(), from)));
  }
  return {};
}

value interpreter::evaluate_slice(const node& what, scope& in) {
  const auto of = evaluate(*what.parts[0], in);
  std::optional<std::int64_t> bounds[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!what.parts[i + 1]) continue;
    const auto given = evaluate(*what.parts[i + 1], in);
    line_ = what.line;
    if (!given.is(value::kind::none)) bounds[i] = integer(given, "a bound of a slice");
  }
  line_ = what.line;
  const bool is_text = of.is(value::kind::string);
  if (!is_text && !of.is(value::kind::list)) fail("only strings and lists can be sliced");
  if (is_text) charge(1 + of.as_text().size() / 16);
  const auto count = static_cast<std::int64_t>(is_text ? count_characters(of.as_text().bytes()) : of.items().size());
  // As Python's slice.indices().
  const auto step = bounds[2].value_or(1);
  if (step == 0) fail("the step of a slice is 0");
  const auto clamp = [&](std::optional<std::int64_t> bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    const auto low = step < 0 ? std::int64_t{-1} : 0;
    const auto high = step < 0 ? count - 1 : count;
    auto place = *bound;
    if (place < 0) place = place < -count ? low : place + count;
    return std::clamp(place, low, std::max(low, high));
  };
  const auto from = clamp(bounds[0], step < 0 ? count - 1 : 0);
  const auto to = clamp(bounds[1], step < 0 ? -1 : count);
  std::vector<std::int64_t> places;
  const auto stride = std::clamp<std::int64_t>(step, -count - 1, count + 1);
  if (is_text && stride == 1) {
    const auto& all = of.as_text();
    const auto begin = character_offset(all.bytes(), static_cast<std::size_t>(from));
    const auto end = to > from ? character_offset(all.bytes(), static_cast<std::size_t>(to - from), begin) : begin;
    return make(all.slice(begin, end));
  }
  for (auto at = from; step > 0 ? at < to : at > to; at += stride) places.push_back(at);
  charge(places.size());
  if (!is_text) {
    std::vector<value> items;
    items.reserve(places.size());
    for (const auto at : places) items.push_back(of.items()[static_cast<std::size_t>(at)]);
    return make(std::move(items));
  }
  const auto& all = of.as_text();
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < all.size(); at += character_bytes(all.bytes(), at)) offsets.push_back(at);
  offsets.push_back(all.size());
  charge(offsets.size());
  text out;
  for (const auto at : places)
    out.append(all, offsets[static_cast<std::size_t>(at)], offsets[static_cast<std::size_t>(at) + 1]);
  return make(std::move(out));
}

value interpreter::evaluate_unary(const node& what, scope& in) {
  const auto of = evaluate(*what.parts[0], in);
  line_ = what.line;
  if (what.name == "not") return value(!truth(of));
  const bool minus = what.name == "-";
  switch (of.type()) {
  case value::kind::boolean:
    return value(std::int64_t{of.as_boolean() ? 1 : 0} * (minus ? -1 : 1));
  case value::kind::integer:
    if (!minus) return of;
    if (of.as_integer() == INT64_MIN) fail("a number is out of range");
    return value(-of.as_integer());
  case value::kind::large:
    return minus ? value(-static_cast<double>(of.as_large())) : of;
  case value::kind::real:
    return minus ? value(-of.as_real()) : of;
  default:
    fail("only numbers have a sign");
  }
}

value interpreter::evaluate_joined(const node& what, scope& in) {
  text out;
  for (const auto& part : what.parts) {
    const auto next = evaluate(*part, in);
    line_ = what.line;
    show(out, next);
  }
  return make(std::move(out));
}

value interpreter::evaluate_compare(const node& what, scope& in) {
  auto left = evaluate(*what.parts[0], in);
  for (std::size_t i = 0; i < what.argument_names.size(); ++i) {
    auto right = evaluate(*what.parts[i + 1], in);
    line_ = what.line;
    const auto& name = what.argument_names[i];
    bool holds = false;
    if (name == "==")
      holds = equal(left, right);
    else if (name == "!=")
      holds = !equal(left, right);
    else if (name == "in")
      holds = contains(right, left);
    else if (name == "not in")
      holds = !contains(right, left);
    else if (name == "<")
      holds = order(left, right) < 0;
    else if (name == ">")
      holds = order(left, right) > 0;
    else if (name == "<=")
      holds = order(left, right) <= 0;
    else
      holds = order(left, right) >= 0;
    if (!holds) return value(false);
    left = std::move(right);
  }
  return value(true);
}

std::string describe(const node& what) {
  switch (what.kind) {
  case node_kind::name:
    return "'" + what.name.substr(0, 60) + "'";
  case node_kind::attribute:
    return "the attribute '" + what.name.substr(0, 60) + "'";
  case node_kind::item:
    if (what.parts[1]->kind == node_kind::constant && what.parts[1]->constant.is(value::kind::string))
      return "the item '" + what.parts[1]->constant.as_text().bytes().substr(0, 60) + "'";
    return "the item";
  default:
    return "the value";
  }
}

} // namespace godwit::protocols::jinja
