#include "jinja/interpreter.hpp"
#include "jinja/numbers.hpp"
#include "jinja/search.hpp"
#include "jinja/strings.hpp"
#include "jinja/unicode.hpp"

#include <algorithm>
#include <utility>

namespace godwit::protocols::jinja {

namespace {

using kind = value::kind;

constexpr std::size_t part_steps = 16; ///< a part takes more memory than its bytes: paid before it is made
constexpr auto every = static_cast<std::size_t>(-1);

/// -1 or none: every one.
std::size_t count_of(interpreter& machine, const value* given) {
  if (given == nullptr || given->is(kind::none)) return every;
  const auto count = machine.integer(*given, "a count");
  return count < 0 ? every : static_cast<std::size_t>(count);
}

value list_of(interpreter& machine, std::vector<text> parts) {
  std::vector<value> items;
  items.reserve(parts.size());
  for (auto& part : parts) items.push_back(machine.make(std::move(part)));
  return machine.make(std::move(items));
}

std::size_t count_of_words(std::string_view all) {
  std::size_t count = 0;
  bool within = false;
  for (std::size_t at = 0; at < all.size();) {
    const auto space = space_at(all, at);
    count += space == 0 && !within ? 1 : 0;
    within = space == 0;
    at += space != 0 ? space : character_bytes(all, at);
  }
  return count;
}

template <class Holds> bool all_characters(std::string_view bytes, Holds holds) {
  for (std::size_t at = 0; at < bytes.size(); at += character_bytes(bytes, at))
    if (!holds(bytes.substr(at, character_bytes(bytes, at)))) return false;
  return !bytes.empty();
}

bool is_digit(std::string_view character) { return character[0] >= '0' && character[0] <= '9'; }

/// What of a string lies between two bounds, given in characters as for a slice.
struct window {
  std::string_view bytes;
  std::int64_t first = 0; ///< the string's character that it begins with
};

/// None where it begins behind its end, or behind the string's.
std::optional<window> window_of(interpreter& machine, std::string_view all, const value* start, const value* end) {
  const auto given = [](const value* bound) { return bound != nullptr && !bound->is(kind::none); };
  if (!given(start) && !given(end)) return window{all};
  machine.charge(1 + all.size() / 16);
  const auto count = static_cast<std::int64_t>(count_characters(all));
  const auto place = [&](const value* bound, std::int64_t otherwise) {
    if (!given(bound)) return otherwise;
    const auto at = machine.integer(*bound, "a bound");
    return at < 0 ? std::max<std::int64_t>(at + count, 0) : at;
  };
  const auto from = place(start, 0);
  const auto to = std::min(place(end, count), count);
  if (from > to) return std::nullopt;
  const auto begin = character_offset(all, static_cast<std::size_t>(from));
  const auto stop = character_offset(all, static_cast<std::size_t>(to - from), begin);
  return window{all.substr(begin, stop - begin), from};
}

/// find, rfind, index, rindex, count.
value sought(interpreter& machine, std::string_view name, const std::optional<window>& in, std::string_view part) {
  if (in) machine.charge(1 + in->bytes.size() / 16);
  if (name == "count") {
    if (!in) return value(std::int64_t{0});
    return value(static_cast<std::int64_t>(part.empty() ? count_characters(in->bytes) + 1
                                                        : count_matches(in->bytes, part, every)));
  }
  const bool last = name == "rfind" || name == "rindex";
  const auto at = !in ? std::string_view::npos : last ? find_last(in->bytes, part) : find_first(in->bytes, part);
  if (at != std::string_view::npos)
    return value(in->first + static_cast<std::int64_t>(count_characters(in->bytes.substr(0, at))));
  if (name == "index" || name == "rindex") machine.fail(std::string(name) + "(): the string has no such part");
  return value(std::int64_t{-1});
}

/// startswith, endswith; `what`: a string, or several.
bool fits(interpreter& machine, bool front, const std::optional<window>& in, const value& what) {
  const auto one_fits = [&](const value& one) {
    const auto& part = machine.string(one, "a beginning or end").bytes();
    machine.charge(1 + part.size() / 64);
    return in && (front ? in->bytes.starts_with(part) : in->bytes.ends_with(part));
  };
  return what.is(kind::list) ? std::ranges::any_of(what.items(), one_fits) : one_fits(what);
}

/// The names of a method's parameters; null where there is no such method.
const std::string_view* parameters_of(std::string_view method) {
  struct known {
    std::string_view name;
    std::string_view parameters;
  };
  static constexpr known table[] = {{"capitalize", ""},
                                    {"count", "sub start end"},
                                    {"endswith", "prefix start end"},
                                    {"find", "sub start end"},
                                    {"format", "*"},
                                    {"index", "sub start end"},
                                    {"isalnum", ""},
                                    {"isalpha", ""},
                                    {"isdecimal", ""},
                                    {"isdigit", ""},
                                    {"islower", ""},
                                    {"isnumeric", ""},
                                    {"isspace", ""},
                                    {"isupper", ""},
                                    {"join", "iterable"},
                                    {"lower", ""},
                                    {"lstrip", "chars"},
                                    {"removeprefix", "part"},
                                    {"removesuffix", "part"},
                                    {"replace", "old new count"},
                                    {"rfind", "sub start end"},
                                    {"rindex", "sub start end"},
                                    {"rsplit", "sep maxsplit"},
                                    {"rstrip", "chars"},
                                    {"split", "sep maxsplit"},
                                    {"splitlines", "keepends"},
                                    {"startswith", "prefix start end"},
                                    {"strip", "chars"},
                                    {"title", ""},
                                    {"upper", ""}};
  for (const auto& one : table)
    if (one.name == method) return &one.parameters;
  return nullptr;
}

/// str.format with {}, {0} and {name}.
text formatted(interpreter& machine, const text& pattern, const call_arguments& with) {
  const auto& all = pattern.bytes();
  machine.charge(all.size() / 8);
  const auto at_place = [&with](std::size_t place) {
    return place < with.positional.size() ? &with.positional[place] : nullptr;
  };
  text out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const auto c = all[at];
    if ((c == '{' || c == '}') && at + 1 < all.size() && all[at + 1] == c) {
      out.append(pattern, at, at + 1);
      ++at;
    } else if (c == '{') {
      const auto end = all.find('}', at);
      if (end == std::string::npos) machine.fail("format(): a '{' is not closed");
      const auto name = all.substr(at + 1, end - at - 1);
      const value* given = nullptr;
      if (name.empty()) {
        given = at_place(next++);
      } else if (const auto place = parse_integer(name); place && *place >= 0) {
        given = at_place(static_cast<std::size_t>(*place));
      } else {
        machine.charge_lookup(with.named.size(), name.size());
        given = with.named_as(name);
      }
      if (given == nullptr) machine.fail("format() has no value for '{" + name.substr(0, 40) + "}'");
      machine.show(out, *given);
      at = end;
    } else {
      out.append(pattern, at, at + 1);
    }
  }
  return out;
}

} // namespace

value interpreter::string_method(const value& of, std::string_view name, call_arguments& with) {
  const auto& self = of.as_text();
  const std::string_view all = self.bytes();
  charge(1 + all.size() / 256);
  const auto* parameters = parameters_of(name);
  if (parameters == nullptr) fail("strings have no method '" + std::string(name.substr(0, 60)) + "'");
  check_arguments(name, with, *parameters);
  const auto argument = [&](std::size_t place, std::string_view called) -> const text& {
    const auto* given = with.get(place, called);
    if (given == nullptr) fail(std::string(name) + "() lacks its argument '" + std::string(called) + "'");
    return string(*given, ("the argument of " + std::string(name) + "()").c_str());
  };
  const auto optional_text = [&](std::size_t place, std::string_view called) -> const text* {
    const auto* given = with.get(place, called);
    return given == nullptr || given->is(kind::none) ? nullptr : &string(*given, "the argument");
  };

  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const auto* of_these = optional_text(0, "chars");
    return strip(self, name != "rstrip", name != "lstrip",
                 of_these != nullptr ? std::optional<std::string_view>(of_these->bytes()) : std::nullopt);
  }
  if (name == "startswith" || name == "endswith") {
    const auto* what = with.get(0, "prefix");
    if (what == nullptr) fail(std::string(name) + "() lacks its argument 'prefix'");
    return value(
        fits(*this, name == "startswith", window_of(*this, all, with.get(1, "start"), with.get(2, "end")), *what));
  }
  if (name == "split" || name == "rsplit") {
    const auto* at = optional_text(0, "sep");
    const auto count = count_of(*this, with.get(1, "maxsplit"));
    charge(all.size() / (at != nullptr ? 16 : 4));
    if (at != nullptr) {
      if (at->empty()) fail("split() at an empty string");
      charge(part_steps * (1 + count_matches(all, at->bytes(), count)));
      return list_of(*this, split(self, at->bytes(), count, name == "rsplit"));
    }
    if (name == "rsplit" && count != every) fail("rsplit() with a count lacks its separator");
    charge(part_steps * std::min(count, count_of_words(all)));
    return list_of(*this, split_words(self, count));
  }
  if (name == "splitlines") {
    charge(all.size() / 4);
    charge(part_steps * count_lines(all));
    const auto* keep = with.get(0, "keepends");
    return list_of(*this, split_lines(self, keep != nullptr && truth(*keep)));
  }
  if (name == "replace") return replace(of, argument(0, "old"), argument(1, "new"), with.get(2, "count"));
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "title" || name.starts_with("is"))
    charge(all.size() / 8);
  if (name == "upper") return make(in_case(self, letter_case::upper));
  if (name == "lower") return make(in_case(self, letter_case::lower));
  if (name == "capitalize") return make(in_case(self, letter_case::capitalized));
  if (name == "title") return make(in_case(self, letter_case::title));
  if (name == "removeprefix" || name == "removesuffix") {
    const auto& part = argument(0, "part");
    const bool front = name == "removeprefix";
    if (!(front ? all.starts_with(part.bytes()) : all.ends_with(part.bytes()))) return of;
    return make(front ? self.slice(part.size(), self.size()) : self.slice(0, self.size() - part.size()));
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count")
    return sought(*this, name, window_of(*this, all, with.get(1, "start"), with.get(2, "end")),
                  argument(0, "sub").bytes());
  if (name == "join") {
    text out;
    bool first = true;
    const auto* items = with.get(0, "iterable");
    if (items == nullptr) fail("join() lacks its argument 'iterable'");
    for (const auto& item : iterate(*items)) {
      if (!std::exchange(first, false)) show(out, of);
      charge_copies(string(item, "an item of join()"));
      out.append(item.as_text());
    }
    return make(std::move(out));
  }
  if (name == "format") return make(formatted(*this, self, with));
  if (name == "isdigit" || name == "isnumeric" || name == "isdecimal") return value(all_characters(all, is_digit));
  if (name == "isalpha") return value(all_characters(all, is_letter));
  if (name == "isalnum")
    return value(all_characters(all, [](std::string_view c) { return is_letter(c) || is_digit(c); }));
  if (name == "isspace") return value(!all.empty() && trimmed_begin(all) == all.size());
  if (name == "isupper") return value(upper_case(all) == all && lower_case(all) != all);
  return value(lower_case(all) == all && upper_case(all) != all); // islower
}

value interpreter::strip(const text& from, bool left, bool right, std::optional<std::string_view> of) {
  charge(1 + (of ? from.size() / 8 + of->size() / 2 : from.size() / 32));
  return make(stripped(from, left, right, of));
}

value interpreter::replace(const value& in, const text& what, const text& by, const value* count) {
  const auto times = count_of(*this, count);
  const auto& all = in.as_text();
  charge(1 + all.size() / 16);
  const auto found = what.empty() ? std::min(count_characters(all.bytes()) + 1, times)
                                  : count_matches(all.bytes(), what.bytes(), times);
  charge(found);
  if (!by.empty() && found > limits().output_bytes_max / by.size()) fail("replace() makes a text too long");
  charge_copies(all);
  charge_copies(by, found);
  return {replaced(all, what.bytes(), by, times)};
}

} // namespace godwit::protocols::jinja
