#include "jinja/filters.hpp"
#include "jinja/unicode.hpp"

namespace godwit::protocols::jinja {

namespace {

using kind = value::kind;

bool is_function(const value& of) {
  if (!of.is(kind::object)) return false;
  const auto type = of.as_object()->type;
  return type == object::kind::function || type == object::kind::macro || type == object::kind::joiner;
}

/// Tests of the value alone; nothing where there is none of this name.
std::optional<bool> plain_test(interpreter& machine, std::string_view name, const value& of) {
  const auto letters = [&]() -> std::string_view {
    if (!of.is(kind::string)) return {};
    machine.charge(of.as_text().size() / 8);
    return of.as_text().bytes();
  };
  if (name == "defined") return of.defined();
  if (name == "undefined") return !of.defined();
  if (name == "none") return of.is(kind::none);
  if (name == "boolean") return of.is(kind::boolean);
  if (name == "true") return of.is(kind::boolean) && of.as_boolean();
  if (name == "false") return of.is(kind::boolean) && !of.as_boolean();
  if (name == "integer") return of.is(kind::integer) || of.is(kind::large);
  if (name == "float") return of.is(kind::real);
  if (name == "number") return of.is(kind::integer) || of.is(kind::large) || of.is(kind::real) || of.is(kind::boolean);
  if (name == "string") return of.is(kind::string);
  if (name == "mapping") return of.is(kind::dict);
  if (name == "sequence" || name == "iterable")
    return of.is(kind::string) || of.is(kind::list) || of.is(kind::dict) || !of.defined();
  if (name == "callable") return is_function(of);
  if (name == "odd") return machine.integer(of, "what is tested for odd") % 2 != 0;
  if (name == "even") return machine.integer(of, "what is tested for even") % 2 == 0;
  if (name == "lower") return lower_case(letters()) == letters() && upper_case(letters()) != letters();
  if (name == "upper") return upper_case(letters()) == letters() && lower_case(letters()) != letters();
  return std::nullopt;
}

bool compares(std::string_view name) {
  for (const std::string_view known : {"eq", "equalto", "==", "sameas", "ne", "!=", "lt", "lessthan", "<", "le",
                                       "<=", "gt", "greaterthan", ">", "ge", ">=", "in", "divisibleby"})
    if (name == known) return true;
  return false;
}

} // namespace

bool interpreter::test(std::string_view name, const value& of, call_arguments& with) {
  charge(1);
  if (name == "filter") {
    check_arguments(name, with, "");
    return of.is(value::kind::string) && find_filter(of.as_text().bytes()) != nullptr;
  }
  if (const auto plain = plain_test(*this, name, of)) {
    check_arguments(name, with, "");
    return *plain;
  }
  if (!compares(name)) fail("there is no test '" + std::string(name.substr(0, 60)) + "'");
  check_arguments(name, with, "other");
  if (with.positional.empty()) fail("the test '" + std::string(name) + "' lacks its argument");
  const auto& other = with.positional[0];
  if (name == "eq" || name == "equalto" || name == "==") return equal(of, other);
  if (name == "sameas") return of.type() == other.type() && equal(of, other);
  if (name == "ne" || name == "!=") return !equal(of, other);
  if (name == "in") return contains(other, of);
  if (name == "divisibleby") {
    const auto by = integer(other, "a divisor");
    if (by == 0) fail("a division by zero");
    return by == -1 || integer(of, "what is divided") % by == 0;
  }
  const auto compared = order(of, other);
  if (name == "lt" || name == "lessthan" || name == "<") return compared < 0;
  if (name == "le" || name == "<=") return compared <= 0;
  if (name == "gt" || name == "greaterthan" || name == ">") return compared > 0;
  return compared >= 0;
}

} // namespace godwit::protocols::jinja
