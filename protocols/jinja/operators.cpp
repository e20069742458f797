#include "jinja/interpreter.hpp"
#include "jinja/numbers.hpp"
#include "jinja/search.hpp"
#include "jinja/unicode.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace godwit::protocols::jinja {

namespace {

using kind = value::kind;

bool is_real(const value& of) { return of.is(kind::real) || of.is(kind::large); }
bool is_number(const value& of) { return of.is(kind::boolean) || of.is(kind::integer) || is_real(of); }

double real_of(const value& of) {
  if (of.is(kind::real)) return of.as_real();
  if (of.is(kind::large)) return static_cast<double>(of.as_large());
  return of.is(kind::boolean) ? (of.as_boolean() ? 1.0 : 0.0) : static_cast<double>(of.as_integer());
}

std::int64_t whole_of(const value& of) { return of.is(kind::boolean) ? (of.as_boolean() ? 1 : 0) : of.as_integer(); }

const char* name_of(const value& of) {
  constexpr const char* names[] = {
      "an undefined value", "none",   "a boolean", "an integer", "a large integer", "a float",
      "a string",           "a list", "a dict",    "an object"};
  return names[static_cast<std::size_t>(of.type())];
}

} // namespace

value interpreter::make(text bytes) {
  charge_copies(bytes);
  return {std::move(bytes)};
}

value interpreter::make(std::vector<value> items) {
  charge(items.size() / 4);
  value out(std::move(items));
  if (out.depth() > limits().nesting_max) fail("lists are nested too deeply");
  return out;
}

value interpreter::make_dict(std::vector<dict_entry> entries) {
  charge(entries.size());
  for (const auto& entry : entries) charge_copies(entry.key);
  auto out = value::dict(std::move(entries));
  if (out.depth() > limits().nesting_max) fail("dicts are nested too deeply");
  return out;
}

value interpreter::make_object(object thing) {
  charge(8);
  objects_.push_back(std::make_shared<object>(std::move(thing)));
  return {objects_.back()};
}

bool interpreter::truth(const value& of) const {
  switch (of.type()) {
  case kind::undefined:
  case kind::none:
    return false;
  case kind::boolean:
    return of.as_boolean();
  case kind::integer:
    return of.as_integer() != 0;
  case kind::large:
    return true;
  case kind::real:
    return of.as_real() != 0.0;
  case kind::string:
    return !of.as_text().empty();
  case kind::list:
    return !of.items().empty();
  case kind::dict:
    return !of.entries().empty();
  case kind::object:
    return true;
  }
  return false;
}

text interpreter::shown(const value& of) {
  text out;
  show(out, of);
  return out;
}

void interpreter::show(text& out, const value& of) {
  if (of.is(kind::string)) {
    charge_copies(of.as_text());
    out.append(of.as_text());
  } else if (of.is(kind::undefined)) {
    // nothing
  } else {
    show_quoted(out, of);
  }
}

bool interpreter::equal(const value& a, const value& b) {
  charge(1);
  if (a.is(kind::large) && b.is(kind::large)) return a.as_large() == b.as_large();
  if (is_number(a) && is_number(b)) {
    if (is_real(a) || is_real(b)) return real_of(a) == real_of(b);
    return whole_of(a) == whole_of(b);
  }
  if (a.type() != b.type()) return false;
  switch (a.type()) {
  case kind::string:
    charge(std::min(a.as_text().size(), b.as_text().size()) / 64);
    return a.as_text().bytes() == b.as_text().bytes();
  case kind::list:
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      [&](const value& x, const value& y) { return equal(x, y); });
  case kind::dict:
    if (a.entries().size() != b.entries().size()) return false;
    for (const auto& entry : a.entries()) {
      charge(1);
      charge_lookup(b.entries().size(), entry.key.size());
      const auto* other = b.find(entry.key.bytes());
      if (other == nullptr || !equal(entry.held, *other)) return false;
    }
    return true;
  case kind::object:
    return a.as_object() == b.as_object();
  default:
    return true; // none and none
  }
}

int interpreter::order(const value& a, const value& b, bool ignore_case) {
  charge(1);
  const auto three_way = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.is(kind::large) && b.is(kind::large)) return three_way(a.as_large(), b.as_large());
  if (is_number(a) && is_number(b)) {
    if (is_real(a) || is_real(b)) return three_way(real_of(a), real_of(b));
    return three_way(whole_of(a), whole_of(b));
  }
  if (a.is(kind::string) && b.is(kind::string)) {
    const auto& x = a.as_text().bytes();
    const auto& y = b.as_text().bytes();
    charge((x.size() + y.size()) / (ignore_case ? 8 : 64));
    return ignore_case ? three_way(lower_case(x), lower_case(y)) : three_way(x, y);
  }
  if (a.is(kind::list) && b.is(kind::list)) {
    for (std::size_t i = 0; i < std::min(a.items().size(), b.items().size()); ++i)
      if (!equal(a.items()[i], b.items()[i])) return order(a.items()[i], b.items()[i], ignore_case);
    return three_way(a.items().size(), b.items().size());
  }
  fail(std::string(name_of(a)) + " and " + name_of(b) + " have no order");
}

bool interpreter::contains(const value& in, const value& what) {
  switch (in.type()) {
  case kind::undefined:
    return false;
  case kind::string:
    if (!what.is(kind::string)) fail(std::string("only a string can be in a string, not ") + name_of(what));
    charge(1 + in.as_text().size() / 16);
    return find_first(in.as_text().bytes(), what.as_text().bytes()) != std::string::npos;
  case kind::list:
    for (const auto& item : in.items())
      if (equal(item, what)) return true;
    return false;
  case kind::dict:
    charge(1);
    if (what.is(kind::string)) charge_lookup(in.entries().size(), what.as_text().size());
    return what.is(kind::string) && in.find(what.as_text().bytes()) != nullptr;
  case kind::object:
    if (in.as_object()->type == object::kind::name_space && what.is(kind::string))
      return attribute(in, what.as_text().bytes()).defined();
    [[fallthrough]];
  default:
    fail(std::string("nothing can be in ") + name_of(in));
  }
}

std::int64_t interpreter::integer(const value& of, const char* what) const {
  if (of.is(kind::integer)) return of.as_integer();
  if (of.is(kind::boolean)) return of.as_boolean() ? 1 : 0;
  fail(std::string(what) + " must be an integer, not " + name_of(of));
}

const text& interpreter::string(const value& of, const char* what) const {
  if (of.is(kind::string)) return of.as_text();
  fail(std::string(what) + " must be a string, not " + name_of(of));
}

std::vector<value> interpreter::iterate(const value& over) {
  std::vector<value> out;
  switch (over.type()) {
  case kind::undefined:
    return out;
  case kind::list:
    charge(1 + over.items().size() / 4);
    return over.items();
  case kind::dict:
    charge(1 + over.entries().size());
    for (const auto& entry : over.entries()) out.push_back(make(entry.key));
    return out;
  case kind::string: {
    const auto& all = over.as_text();
    charge(1 + 8 * count_characters(all.bytes()));
    for (std::size_t at = 0; at < all.size();) {
      const auto end = at + character_bytes(all.bytes(), at);
      out.push_back(make(all.slice(at, end)));
      at = end;
    }
    return out;
  }
  default:
    fail(std::string(name_of(over)) + " has no items to go through");
  }
}

value interpreter::attribute(const value& of, std::string_view name) {
  charge(1);
  if (of.is(kind::dict)) {
    charge_lookup(of.entries().size(), name.size());
    const auto* found = of.find(name);
    return found != nullptr ? *found : value();
  }
  if (!of.is(kind::object)) return {};
  const auto& thing = *of.as_object();
  if (thing.type == object::kind::loop) return loop_attribute(thing, name);
  if (thing.type == object::kind::macro && name == "name") return value::markup(std::string(thing.name));
  if (thing.type == object::kind::cycler && name == "current") return thing.held[thing.index % thing.held.size()];
  charge_lookup(thing.attributes.size(), name.size());
  for (const auto& [known, held] : thing.attributes)
    if (known == name) return held;
  return {};
}

value interpreter::attribute_path(const value& of, const value& path) {
  if (path.is(kind::integer)) {
    const auto at = path.as_integer();
    if (!of.is(kind::list) || at < 0 || at >= static_cast<std::int64_t>(of.items().size())) return {};
    return of.items()[static_cast<std::size_t>(at)];
  }
  const std::string_view all = string(path, "an attribute").bytes();
  charge(all.size() / 8);
  auto at = of;
  for (std::size_t from = 0; from <= all.size();) {
    const auto end = std::min(all.find('.', from), all.size());
    const auto name = all.substr(from, end - from);
    if (at.is(kind::list) && !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos)
      at = attribute_path(at, value(parse_integer(name).value_or(-1)));
    else
      at = attribute(at, name);
    from = end + 1;
  }
  return at;
}

value interpreter::binary(std::string_view name, const value& left, const value& right) {
  const auto cannot = [&]() -> value {
    fail("'" + std::string(name) + "' cannot be applied to " + name_of(left) + " and " + name_of(right));
  };
  if (name == "+" && left.is(kind::string) && right.is(kind::string)) {
    auto out = left.as_text();
    out.append(right.as_text());
    return make(std::move(out));
  }
  if (name == "+" && left.is(kind::list) && right.is(kind::list)) {
    auto items = left.items();
    charge(items.size() + right.items().size());
    items.insert(items.end(), right.items().begin(), right.items().end());
    return make(std::move(items));
  }
  if (name == "*" && (left.is(kind::integer) || right.is(kind::integer)) && !(is_number(left) && is_number(right))) {
    const auto& what = left.is(kind::integer) ? right : left;
    const auto times = std::max<std::int64_t>(0, (left.is(kind::integer) ? left : right).as_integer());
    if (!what.is(kind::string) && !what.is(kind::list)) return cannot();
    const auto size = what.is(kind::string) ? what.as_text().size() : what.items().size();
    if (size > 0 && static_cast<std::uint64_t>(times) > limits().output_bytes_max / size)
      fail("a value is repeated too often");
    const auto total = size * static_cast<std::uint64_t>(times);
    if (what.is(kind::string)) {
      if (size == 0) return what;
      charge_copies(what.as_text(), static_cast<std::uint64_t>(times));
      charge(static_cast<std::uint64_t>(times) * what.as_text().runs().size() / 8);
      text out;
      for (std::int64_t i = 0; i < times; ++i) out.append(what.as_text());
      return {std::move(out)};
    }
    charge(total);
    std::vector<value> items;
    for (std::int64_t i = 0; i < times && size > 0; ++i)
      items.insert(items.end(), what.items().begin(), what.items().end());
    return make(std::move(items));
  }
  if (!is_number(left) || !is_number(right)) return cannot();
  const bool real = is_real(left) || is_real(right);
  auto result =
      real ? calculate(name, real_of(left), real_of(right)) : calculate(name, whole_of(left), whole_of(right));
  if (!result) fail(result.error());
  return *result;
}

} // namespace godwit::protocols::jinja
