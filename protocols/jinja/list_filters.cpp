#include "jinja/filters.hpp"

#include <algorithm>
#include <utility>

namespace godwit::protocols::jinja {

namespace {

using kind = value::kind;

bool flag(interpreter& machine, const call_arguments& with, std::size_t place, std::string_view name) {
  const auto* given = with.get(place, name);
  return given != nullptr && machine.truth(*given);
}

value first(interpreter& machine, const value& of, call_arguments&) {
  auto items = machine.iterate(of);
  return items.empty() ? value() : std::move(items.front());
}

value last(interpreter& machine, const value& of, call_arguments&) {
  auto items = machine.iterate(of);
  return items.empty() ? value() : std::move(items.back());
}

value list(interpreter& machine, const value& of, call_arguments&) { return machine.make(machine.iterate(of)); }

value reversed(interpreter& machine, const value& of, call_arguments&) {
  auto items = machine.iterate(of);
  std::reverse(items.begin(), items.end());
  if (!of.is(kind::string)) return machine.make(std::move(items));
  text out;
  for (const auto& item : items) out.append(item.as_text());
  return machine.make(std::move(out));
}

/// A sort whose order may fail half way: std::sort would not survive that, so merge sort by hand.
void sort_items(std::vector<std::pair<value, value>>& items,
                const std::function<bool(const value&, const value&)>& less) {
  std::vector<std::pair<value, value>> spare(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t from = 0; from < items.size(); from += 2 * width) {
      const auto middle = std::min(from + width, items.size());
      const auto end = std::min(from + 2 * width, items.size());
      auto left = from;
      auto right = middle;
      for (auto at = from; at < end; ++at) {
        const bool take_right = right < end && (left >= middle || less(items[right].first, items[left].first));
        spare[at] = items[take_right ? right++ : left++];
      }
    }
    items.swap(spare);
  }
}

value sorted(interpreter& machine, std::vector<std::pair<value, value>> keyed, bool ignore_case, bool reverse) {
  sort_items(keyed, [&](const value& a, const value& b) {
    return reverse ? machine.order(b, a, ignore_case) < 0 : machine.order(a, b, ignore_case) < 0;
  });
  std::vector<value> items;
  items.reserve(keyed.size());
  for (auto& pair : keyed) items.push_back(std::move(pair.second));
  return machine.make(std::move(items));
}

value sort(interpreter& machine, const value& of, call_arguments& with) {
  const auto* path = with.path(2);
  std::vector<std::pair<value, value>> keyed;
  for (auto& item : machine.iterate(of)) {
    auto key = path != nullptr ? machine.attribute_path(item, *path) : item;
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return sorted(machine, std::move(keyed), !flag(machine, with, 1, "case_sensitive"),
                flag(machine, with, 0, "reverse"));
}

value sort_dict(interpreter& machine, const value& of, call_arguments& with) {
  if (!of.is(kind::dict)) machine.fail("dictsort is for dicts");
  const auto* by = with.get(1, "by");
  const bool by_value = by != nullptr && machine.string(*by, "'by'").bytes() == "value";
  std::vector<std::pair<value, value>> keyed;
  machine.charge(2 * of.entries().size());
  for (const auto& entry : of.entries()) {
    auto key = machine.make(entry.key);
    auto pair = machine.make(std::vector<value>{key, entry.held});
    keyed.emplace_back(by_value ? entry.held : std::move(key), std::move(pair));
  }
  return sorted(machine, std::move(keyed), !flag(machine, with, 0, "case_sensitive"),
                flag(machine, with, 2, "reverse"));
}

value unique(interpreter& machine, const value& of, call_arguments& with) {
  const auto* path = with.path(1);
  const bool ignore_case = !flag(machine, with, 0, "case_sensitive");
  std::vector<value> keys;
  std::vector<value> out;
  for (auto& item : machine.iterate(of)) {
    auto key = path != nullptr ? machine.attribute_path(item, *path) : item;
    call_arguments none;
    if (ignore_case && key.is(kind::string)) key = machine.filter("lower", key, none);
    const bool known =
        std::any_of(keys.begin(), keys.end(), [&](const value& other) { return machine.equal(key, other); });
    if (known) continue;
    keys.push_back(std::move(key));
    out.push_back(std::move(item));
  }
  return machine.make(std::move(out));
}

value items(interpreter& machine, const value& of, call_arguments& with) {
  if (!of.defined()) return machine.make(std::vector<value>{});
  if (!of.is(kind::dict)) machine.fail("items is for dicts");
  return machine.call_method(of, "items", with);
}

/// The arguments of the filter or test that map, select, ... were given.
call_arguments rest(interpreter& machine, const call_arguments& with, std::size_t from) {
  machine.charge(with.positional.size() + with.named.size());
  call_arguments out;
  for (auto i = from; i < with.positional.size(); ++i) out.positional.push_back(with.positional[i]);
  out.named = with.named;
  return out;
}

/// Jinja's map and select take whatever is false as empty.
std::vector<value> items_or_none(interpreter& machine, const value& of) {
  return machine.truth(of) ? machine.iterate(of) : std::vector<value>{};
}

value map(interpreter& machine, const value& of, call_arguments& with) {
  std::vector<value> out;
  const auto items = items_or_none(machine, of);
  const auto* path = with.positional.empty() ? with.named_as("attribute") : nullptr;
  const auto* instead = with.named_as("default");
  if (path != nullptr) machine.check_arguments("map", with, "attribute default");
  if (path == nullptr && with.positional.empty() && !items.empty()) machine.fail("map lacks the name of a filter");
  for (const auto& item : items) {
    if (path != nullptr) {
      auto found = machine.attribute_path(item, *path);
      out.push_back(!found.defined() && instead != nullptr ? *instead : std::move(found));
    } else {
      auto given = rest(machine, with, 1);
      out.push_back(machine.filter(machine.string(with.positional[0], "the name of a filter").bytes(), item, given));
    }
  }
  return machine.make(std::move(out));
}

template <bool Wanted, bool OfAttribute> value select(interpreter& machine, const value& of, call_arguments& with) {
  constexpr std::size_t at = OfAttribute ? 1 : 0;
  auto items = items_or_none(machine, of);
  if (OfAttribute && with.positional.empty() && !items.empty()) machine.fail("the name of the attribute is missing");
  std::vector<value> out;
  for (auto& item : items) {
    const auto tested = OfAttribute ? machine.attribute_path(item, with.positional[0]) : item;
    bool holds = false;
    if (with.positional.size() > at) {
      auto given = rest(machine, with, at + 1);
      holds = machine.test(machine.string(with.positional[at], "the name of a test").bytes(), tested, given);
    } else {
      holds = machine.truth(tested);
    }
    if (holds == Wanted) out.push_back(std::move(item));
  }
  return machine.make(std::move(out));
}

value sum(interpreter& machine, const value& of, call_arguments& with) {
  const auto* path = with.path(0);
  const auto* start = with.get(1, "start");
  auto out = start != nullptr ? *start : value(std::int64_t{0});
  for (const auto& item : machine.iterate(of))
    out = machine.binary("+", out, path != nullptr ? machine.attribute_path(item, *path) : item);
  return out;
}

template <bool Largest> value extreme(interpreter& machine, const value& of, call_arguments& with) {
  const auto* path = with.path(1);
  const bool ignore_case = !flag(machine, with, 0, "case_sensitive");
  value best;
  value best_key;
  bool any = false;
  for (auto& item : machine.iterate(of)) {
    auto key = path != nullptr ? machine.attribute_path(item, *path) : item;
    const auto compared = any ? machine.order(key, best_key, ignore_case) : 0;
    if (any && (Largest ? compared <= 0 : compared >= 0)) continue;
    any = true;
    best_key = std::move(key);
    best = std::move(item);
  }
  return best;
}

value batch(interpreter& machine, const value& of, call_arguments& with) {
  const auto* count = with.get(0, "linecount");
  const auto* fill = with.get(1, "fill_with");
  const auto size = count != nullptr ? machine.integer(*count, "the size of a batch") : 0;
  if (size < 1 || size > 10'000) machine.fail("the size of a batch must be from 1 to 10000");
  std::vector<value> out;
  std::vector<value> row;
  for (auto& item : machine.iterate(of)) {
    row.push_back(std::move(item));
    if (static_cast<std::int64_t>(row.size()) == size) out.push_back(machine.make(std::exchange(row, {})));
  }
  if (!row.empty()) {
    machine.charge(static_cast<std::uint64_t>(size));
    while (fill != nullptr && static_cast<std::int64_t>(row.size()) < size) row.push_back(*fill);
    out.push_back(machine.make(std::move(row)));
  }
  return machine.make(std::move(out));
}

} // namespace

const known_filter* find_list_filter(std::string_view name) {
  static constexpr known_filter table[] = {
      {"batch", batch, "linecount fill_with"},
      {"dictsort", sort_dict, "case_sensitive by reverse"},
      {"first", first, ""},
      {"items", items, ""},
      {"last", last, ""},
      {"list", list, ""},
      {"map", map, "*"},
      {"max", extreme<true>, "case_sensitive attribute"},
      {"min", extreme<false>, "case_sensitive attribute"},
      {"reject", select<false, false>, "*"},
      {"rejectattr", select<false, true>, "*"},
      {"reverse", reversed, ""},
      {"select", select<true, false>, "*"},
      {"selectattr", select<true, true>, "*"},
      {"sort", sort, "reverse case_sensitive attribute"},
      {"sum", sum, "attribute start"},
      {"unique", unique, "case_sensitive attribute"},
  };
  for (const auto& one : table)
    if (one.name == name) return &one;
  return nullptr;
}

} // namespace godwit::protocols::jinja
