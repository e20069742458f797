#include "jinja/interpreter.hpp"
#include "jinja/numbers.hpp"
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

std::size_t count_of_parts(std::string_view all, std::string_view at) {
  std::size_t count = 1;
  for (auto found = all.find(at); found != std::string_view::npos; found = all.find(at, found + at.size())) ++count;
  return count;
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
  return !bytes.empty() &&
         std::all_of(bytes.begin(), bytes.end(), [&](char c) { return holds(static_cast<unsigned char>(c)); });
}

bool is_letter(unsigned char c) { return c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

/// str.format with {}, {0} and {name}.
text formatted(interpreter& machine, const text& pattern, const call_arguments& with) {
  const auto& all = pattern.bytes();
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
      if (name.empty())
        given = with.get(next++, "");
      else if (const auto place = parse_integer(name); place && *place >= 0)
        given = with.get(static_cast<std::size_t>(*place), "");
      else
        given = with.named_as(name);
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
    const auto fits = [&](const text& part) {
      return name == "startswith" ? all.starts_with(part.bytes()) : all.ends_with(part.bytes());
    };
    if (!with.positional.empty() && with.positional[0].is(kind::list)) {
      for (const auto& one : with.positional[0].items())
        if (fits(string(one, "a beginning or end"))) return value(true);
      return value(false);
    }
    return value(fits(argument(0, "prefix")));
  }
  if (name == "split" || name == "rsplit") {
    const auto* at = optional_text(0, "sep");
    const auto count = count_of(*this, with.get(1, "maxsplit"));
    charge(all.size() / (at != nullptr ? 32 : 4));
    if (at != nullptr) {
      if (at->empty()) fail("split() at an empty string");
      charge(part_steps * std::min(count, count_of_parts(all, at->bytes())));
      return list_of(*this, split(self, at->bytes(), count, name == "rsplit"));
    }
    if (name == "rsplit" && count != every) fail("rsplit() with a count lacks its separator");
    charge(part_steps * std::min(count, count_of_words(all)));
    return list_of(*this, split_words(self, count));
  }
  if (name == "splitlines") {
    charge(all.size() / 4 + part_steps * static_cast<std::size_t>(std::ranges::count_if(
                                             all, [](char c) { return c == '\n' || c == '\r'; })));
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
  if (name == "find" || name == "rfind" || name == "index" || name == "count") {
    const auto& part = argument(0, "sub").bytes();
    charge(1 + all.size() / 16);
    if (name == "count") {
      std::int64_t count = 0;
      if (part.empty()) return value(static_cast<std::int64_t>(count_characters(all)) + 1);
      for (auto at = all.find(part); at != std::string_view::npos; at = all.find(part, at + part.size())) ++count;
      return value(count);
    }
    const auto at = name == "rfind" ? all.rfind(part) : all.find(part);
    if (at != std::string_view::npos) return value(static_cast<std::int64_t>(count_characters(all.substr(0, at))));
    if (name == "index") fail("index(): the string has no such part");
    return value(std::int64_t{-1});
  }
  if (name == "join") {
    text out;
    bool first = true;
    for (const auto& item : iterate(with.positional.empty() ? value(std::vector<value>{}) : with.positional[0])) {
      if (!std::exchange(first, false)) show(out, of);
      out.append(string(item, "an item of join()"));
      charge_bytes(item.as_text().size());
    }
    return make(std::move(out));
  }
  if (name == "format") return make(formatted(*this, self, with));
  if (name == "isdigit" || name == "isnumeric" || name == "isdecimal") return value(all_characters(all, is_digit));
  if (name == "isalpha") return value(all_characters(all, is_letter));
  if (name == "isalnum") return value(all_characters(all, [](unsigned char c) { return is_letter(c) || is_digit(c); }));
  if (name == "isspace") return value(!all.empty() && trimmed_begin(all) == all.size());
  if (name == "isupper") return value(upper_case(all) == all && lower_case(all) != all);
  if (name == "islower") return value(lower_case(all) == all && upper_case(all) != all);
  fail("strings have no method '" + std::string(name.substr(0, 60)) + "'");
}

value interpreter::strip(const text& from, bool left, bool right, std::optional<std::string_view> of) {
  auto out = stripped(from, left, right, of);
  charge(1 + (from.size() - out.size()) / 8 * (1 + (of ? of->size() : 0)));
  return make(std::move(out));
}

value interpreter::replace(const value& in, const text& what, const text& by, const value* count) {
  const auto times = count_of(*this, count);
  const std::string_view all = in.as_text().bytes();
  charge(1 + all.size() / 16);
  std::size_t found = 0;
  if (what.empty()) {
    found = count_characters(all) + 1;
  } else {
    for (auto at = all.find(what.bytes()); at != std::string_view::npos && found < times;
         at = all.find(what.bytes(), at + what.size()))
      ++found;
  }
  found = std::min(found, times);
  charge(found);
  if (!by.empty() && found > limits().output_bytes_max / by.size()) fail("replace() makes a text too long");
  charge_bytes(all.size() + found * by.size());
  return {replaced(in.as_text(), what.bytes(), by, times)};
}

} // namespace godwit::protocols::jinja
