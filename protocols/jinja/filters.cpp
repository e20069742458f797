#include "jinja/filters.hpp"

#include "jinja/numbers.hpp"
#include "jinja/strings.hpp"
#include "jinja/unicode.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace godwit::protocols::jinja {

namespace {

using kind = value::kind;

value length(interpreter& machine, const value& of, call_arguments&) {
  switch (of.type()) {
  case kind::undefined:
    return value(std::int64_t{0});
  case kind::string:
    machine.charge(1 + of.as_text().size() / 16);
    return value(static_cast<std::int64_t>(count_characters(of.as_text().bytes())));
  case kind::list:
    return value(static_cast<std::int64_t>(of.items().size()));
  case kind::dict:
    return value(static_cast<std::int64_t>(of.entries().size()));
  default:
    machine.fail("only strings, lists and dicts have a length");
  }
}

value otherwise(interpreter& machine, const value& of, call_arguments& with) {
  const auto* instead = with.get(0, "default_value");
  const auto* also_false = with.get(1, "boolean");
  if (of.defined() && !(also_false != nullptr && machine.truth(*also_false) && !machine.truth(of))) return of;
  return instead != nullptr ? *instead : value::markup({});
}

value trim(interpreter& machine, const value& of, call_arguments& with) {
  const auto all = machine.shown(of);
  const auto* chars = with.get(0, "chars");
  if (chars == nullptr || chars->is(kind::none)) return machine.strip(all, true, true, std::nullopt);
  return machine.strip(all, true, true, machine.string(*chars, "the characters").bytes());
}

template <letter_case How> value cased(interpreter& machine, const value& of, call_arguments&) {
  const auto all = machine.shown(of);
  machine.charge(all.size() / 8);
  return machine.make(in_case(all, How));
}

value join(interpreter& machine, const value& of, call_arguments& with) {
  const auto* separator = with.get(0, "d");
  const auto* path = with.path(1);
  text out;
  bool first = true;
  for (const auto& item : machine.iterate(of)) {
    if (!std::exchange(first, false) && separator != nullptr) machine.show(out, *separator);
    machine.show(out, path != nullptr ? machine.attribute_path(item, *path) : item);
  }
  return machine.make(std::move(out));
}

value replace(interpreter& machine, const value& of, call_arguments& with) {
  const auto* what = with.get(0, "old");
  const auto* by = with.get(1, "new");
  if (what == nullptr || by == nullptr) machine.fail("replace lacks an argument");
  const value in(machine.shown(of));
  return machine.replace(in, machine.string(*what, "the old text"), machine.string(*by, "the new text"),
                         with.get(2, "count"));
}

value as_string(interpreter& machine, const value& of, call_arguments&) { return machine.make(machine.shown(of)); }
value as_it_is(interpreter&, const value& of, call_arguments&) { return of; }

value as_integer(interpreter& machine, const value& of, call_arguments& with) {
  const auto* given = with.get(0, "default");
  const auto fallback = given != nullptr ? *given : value(std::int64_t{0});
  double number = 0;
  if (of.is(kind::integer) || of.is(kind::large)) return of;
  if (of.is(kind::boolean)) return value(std::int64_t{of.as_boolean()});
  if (of.is(kind::real)) {
    number = of.as_real();
  } else if (of.is(kind::string)) {
    const auto* base = with.get(1, "base");
    machine.charge(of.as_text().size() / 8);
    if (const auto whole = parse_integer(of.as_text().bytes(), base != nullptr ? machine.integer(*base, "a base") : 10))
      return value(*whole);
    const auto real = parse_real(of.as_text().bytes());
    if (!real) return fallback;
    number = *real;
  } else {
    return fallback;
  }
  if (!(std::abs(number) < 9.2e18)) machine.fail("a number is out of range");
  return value(static_cast<std::int64_t>(number));
}

value as_real(interpreter& machine, const value& of, call_arguments& with) {
  const auto* given = with.get(0, "default");
  if (of.is(kind::real)) return of;
  if (of.is(kind::integer)) return value(static_cast<double>(of.as_integer()));
  if (of.is(kind::large)) return value(static_cast<double>(of.as_large()));
  if (of.is(kind::boolean)) return value(of.as_boolean() ? 1.0 : 0.0);
  if (of.is(kind::string)) {
    machine.charge(of.as_text().size() / 8);
    if (const auto real = parse_real(of.as_text().bytes())) return value(*real);
  }
  return given != nullptr ? *given : value(0.0);
}

value absolute(interpreter& machine, const value& of, call_arguments&) {
  if (of.is(kind::real)) return value(std::abs(of.as_real()));
  if (of.is(kind::large)) return of;
  const auto number = machine.integer(of, "the argument of abs");
  if (number == INT64_MIN) machine.fail("a number is out of range");
  return value(number < 0 ? -number : number);
}

/// An integer to a power of ten; halves to the even side.
value to_tens(interpreter& machine, std::int64_t number, std::int64_t power) {
  std::int64_t unit = 1;
  for (; power > 0; --power) unit *= 10;
  const auto rest = number % unit;
  auto out = number - rest;
  const auto doubled = 2 * std::abs(rest);
  if (doubled > unit || (doubled == unit && out / unit % 2 != 0))
    if (__builtin_add_overflow(out, number < 0 ? -unit : unit, &out)) machine.fail("a number is out of range");
  return value(out);
}

value rounded(interpreter& machine, const value& of, call_arguments& with) {
  if (of.is(kind::large)) return of;
  auto number = of.is(kind::real) ? of.as_real() : static_cast<double>(machine.integer(of, "the argument of round"));
  const auto* digits = with.get(0, "precision");
  const auto* method = with.get(1, "method");
  const auto places = digits != nullptr ? machine.integer(*digits, "the precision") : 0;
  if (places < -15 || places > 15) machine.fail("round() to too many places");
  const auto how = method != nullptr ? machine.string(*method, "the method").bytes() : "common";
  const auto scale = std::pow(10.0, static_cast<double>(places));
  if (how == "ceil") return value(std::ceil(number * scale) / scale);
  if (how == "floor") return value(std::floor(number * scale) / scale);
  if (!of.is(kind::real)) return to_tens(machine, machine.integer(of, "the argument of round"), -places);
  if (places < 0) {
    const auto unit = std::pow(10.0, static_cast<double>(-places));
    return value(std::nearbyint(number / unit) * unit);
  }
  // As Python: the binary value itself is rounded (2.675 lies below its decimals), not a product that is rounded
  // already.
  std::array<char, 350> digits_of{};
  const auto written = std::to_chars(digits_of.data(), digits_of.data() + digits_of.size(), number,
                                     std::chars_format::fixed, static_cast<int>(places));
  if (written.ec != std::errc()) machine.fail("a number is out of range");
  std::from_chars(digits_of.data(), written.ptr, number);
  return value(number);
}

value escape(interpreter& machine, const value& of, call_arguments&) {
  const auto all = machine.shown(of);
  machine.charge(all.size() / 4);
  text out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto c = all.bytes()[i];
    const char* name = c == '&'    ? "&amp;"
                       : c == '<'  ? "&lt;"
                       : c == '>'  ? "&gt;"
                       : c == '"'  ? "&#34;"
                       : c == '\'' ? "&#39;"
                                   : nullptr;
    if (name != nullptr)
      out.append(name, all.markup_at(i));
    else
      out.append(all, i, i + 1);
  }
  return machine.make(std::move(out));
}

value indent(interpreter& machine, const value& of, call_arguments& with) {
  const auto all = machine.shown(of);
  const auto* width = with.get(0, "width");
  const auto* first = with.get(1, "first");
  const auto* blank = with.get(2, "blank");
  text by("    ", true);
  if (width != nullptr && width->is(kind::string)) {
    by = width->as_text();
  } else if (width != nullptr) {
    const auto count = machine.integer(*width, "the width");
    if (count < 0 || count > 1000) machine.fail("the width must be from 0 to 1000");
    by = text(std::string(static_cast<std::size_t>(count), ' '), true);
  }
  machine.charge(all.size() / 8);
  text out;
  std::size_t from = 0;
  for (bool begins = true; from <= all.size(); begins = false) {
    const auto end = std::min(all.bytes().find('\n', from), all.size());
    const bool wanted =
        begins ? first != nullptr && machine.truth(*first) : end > from || (blank != nullptr && machine.truth(*blank));
    if (wanted) {
      machine.charge_copies(by);
      out.append(by);
    }
    out.append(all, from, std::min(end + 1, all.size()));
    from = end + 1;
  }
  return machine.make(std::move(out));
}

value format(interpreter& machine, const value& of, call_arguments& with) {
  const auto& pattern = machine.string(of, "a format");
  machine.charge(pattern.size() / 8);
  text out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto c = pattern.bytes()[i];
    const auto then = i + 1 < pattern.size() ? pattern.bytes()[i + 1] : '\0';
    if (c != '%') {
      out.append(pattern, i, i + 1);
      continue;
    }
    ++i;
    if (then == '%') {
      out.append(pattern, i, i + 1);
      continue;
    }
    if (next >= with.positional.size()) machine.fail("format has too few values");
    const auto& given = with.positional[next++];
    if (then == 's')
      machine.show(out, given);
    else if (then == 'd')
      out.append(given.is(kind::large) ? std::to_string(given.as_large())
                                       : std::to_string(machine.integer(given, "a value for %d")),
                 true);
    else if (then == 'r')
      machine.show_quoted(out, given);
    else
      machine.fail("format knows %s, %d and %r only");
  }
  if (next < with.positional.size() || !with.named.empty()) machine.fail("format has too many values");
  return machine.make(std::move(out));
}

value to_json(interpreter& machine, const value& of, call_arguments& with) { return machine.to_json(of, with); }

} // namespace

const known_filter* find_filter(std::string_view name) {
  static constexpr known_filter table[] = {
      {"abs", absolute, ""},
      {"capitalize", cased<letter_case::capitalized>, ""},
      {"count", length, ""},
      {"d", otherwise, "default_value boolean"},
      {"default", otherwise, "default_value boolean"},
      {"e", escape, ""},
      {"escape", escape, ""},
      {"float", as_real, "default"},
      {"format", format, "*"},
      {"indent", indent, "width first blank"},
      {"int", as_integer, "default base"},
      {"join", join, "d attribute"},
      {"length", length, ""},
      {"lower", cased<letter_case::lower>, ""},
      {"replace", replace, "old new count"},
      {"round", rounded, "precision method"},
      {"safe", as_it_is, ""},
      {"string", as_string, ""},
      {"title", cased<letter_case::words>, ""},
      {"tojson", to_json, "ensure_ascii indent separators sort_keys"},
      {"trim", trim, "chars"},
      {"upper", cased<letter_case::upper>, ""},
  };
  for (const auto& one : table)
    if (one.name == name) return &one;
  return find_list_filter(name);
}

value interpreter::filter(std::string_view name, const value& of, call_arguments& with) {
  const depth_guard deeper(*this);
  charge(1);
  const auto* known = find_filter(name);
  if (known == nullptr) fail("there is no filter '" + std::string(name.substr(0, 60)) + "'");
  check_arguments(name, with, known->parameters);
  return known->function(*this, of, with);
}

} // namespace godwit::protocols::jinja
