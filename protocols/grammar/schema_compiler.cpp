#include "grammar/schema_compiler.hpp"

#include "grammar/characters.hpp"
#include "grammar/compiled.hpp"
#include "grammar/formats.hpp"
#include "grammar/regex.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

namespace godwit::protocols::grammar {

namespace json = boost::json;

namespace {

/// Say nothing about what is valid.
constexpr std::array<std::string_view, 17> annotations{
    "title",         "description", "default",          "examples",        "example",      "$comment",
    "$schema",       "deprecated",  "readOnly",         "writeOnly",       "$defs",        "definitions",
    "discriminator", "$id",         "contentMediaType", "contentEncoding", "contentSchema"};

struct keyword {
  std::string_view name;
  std::string_view type; ///< the type that it is about; empty: any
};
constexpr std::array<keyword, 23> known{{{"type", ""},
                                         {"enum", ""},
                                         {"const", ""},
                                         {"anyOf", ""},
                                         {"oneOf", ""},
                                         {"allOf", ""},
                                         {"$ref", ""},
                                         {"nullable", ""},
                                         {"properties", "object"},
                                         {"required", "object"},
                                         {"additionalProperties", "object"},
                                         {"items", "array"},
                                         {"prefixItems", "array"},
                                         {"minItems", "array"},
                                         {"maxItems", "array"},
                                         {"minLength", "string"},
                                         {"maxLength", "string"},
                                         {"pattern", "string"},
                                         {"format", "string"},
                                         {"minimum", "number"},
                                         {"maximum", "number"},
                                         {"exclusiveMinimum", "number"},
                                         {"exclusiveMaximum", "number"}}};

constexpr std::size_t names_per_node = 32; ///< that are compared in the time that work on a node takes
/// Of looking for a pattern in all values of an enum, in terms looked up.
constexpr std::size_t search_work = 1U << 18U;
constexpr std::string_view search_too_complex = "it is too complex to be looked for in the values of enum or const";
constexpr double counted_max = 1e9; ///< characters, items
/// Terms looked up for names that take as long as one value copied; measured, rounded.
constexpr std::size_t terms_per_value = 3;

const keyword* find_keyword(std::string_view name) {
  const auto found = std::ranges::find(known, name, &keyword::name);
  return found == known.end() ? nullptr : &*found;
}
std::string_view type_name(const json::value& value) {
  switch (value.kind()) {
  case json::kind::null:
    return "null";
  case json::kind::bool_:
    return "boolean";
  case json::kind::string:
    return "string";
  case json::kind::array:
    return "array";
  case json::kind::object:
    return "object";
  case json::kind::double_:
    return std::trunc(value.get_double()) == value.get_double() ? "integer" : "number";
  default:
    return "integer";
  }
}

std::uint32_t count_of(const json::object& from, std::string_view name, std::uint32_t otherwise,
                       const std::string& path) {
  const auto* value = from.if_contains(name);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->to_number<double>() : -1;
  const bool whole = number >= 0 && std::trunc(number) == number;
  // No answer is as long, so programs that write their largest integer mean no bound.
  if (whole && number > counted_max && name.starts_with("max")) return unlimited;
  if (!whole || number > counted_max)
    throw schema_fault{{below(path, name), "it must be an integer from 0 to 1000000000"}};
  return static_cast<std::uint32_t>(number);
}

/// Holds for whatever names an object has.
bool holds_for_names(const json::value& schema) {
  if (!schema.is_object()) return schema.is_bool() && schema.get_bool();
  const auto& all = schema.get_object();
  return std::ranges::all_of(all, [&](const auto& field) {
    return (field.key() == "type" && field.value() == "string") || says_nothing(field, all);
  });
}

bool asks_for_nothing(const json::value& schema) {
  if (!schema.is_object()) return schema == true;
  return std::ranges::all_of(schema.get_object(),
                             [&](const auto& field) { return says_nothing(field, schema.get_object()); });
}

/// Of numbers: below 0, 0 or above it, as `a` is less, equal or greater.
int compare(const json::value& a, const json::value& b) {
  const auto number = [](const json::value& of) -> long double { // holds every int64, uint64 and double
    return of.is_int64()    ? static_cast<long double>(of.get_int64())
           : of.is_uint64() ? static_cast<long double>(of.get_uint64())
                            : static_cast<long double>(of.get_double());
  };
  const auto one = number(a), other = number(b);
  return one < other ? -1 : one > other ? 1 : 0;
}

bool only_integers(const json::object& schema) {
  const auto* type = schema.if_contains("type");
  if (type == nullptr) return false;
  return type->is_array() ? std::ranges::find(type->get_array(), "number") == type->get_array().end()
                          : *type == "integer";
}

/// A pattern that the format beside it stands for.
bool is_by_format(const json::value& format, const json::value* pattern) {
  return pattern != nullptr && pattern->is_string() && format.is_string() &&
         format_implies(text_of(format.get_string()), text_of(pattern->get_string()));
}

/// Finds a pattern in texts, with bounded work for all of them together.
expected<std::shared_ptr<automaton>, std::string> search_for(std::string_view pattern) {
  try {
    auto made = std::make_shared<compiled>(term_table(search_work));
    auto& terms = made->terms;
    terms.limit_work(search_work);
    pattern_context context;
    context.character = [&terms](const character_set& set) { return utf8_of(terms, set); };
    context.around = terms.repeat(utf8_of(terms, {0, highest_character}), 0, unlimited);
    auto start = compile_pattern(terms, pattern, context);
    if (!start) return unexpected(start.error());
    made->start = *start;
    classify_bytes(*made);
    auto out = std::make_shared<automaton>(text_grammar(std::move(made)));
    out->limit_work(search_work);
    return out;
  } catch (const too_complex&) {
    return unexpected(std::string(search_too_complex));
  }
}

} // namespace

bool says_nothing(const json::key_value_pair& field, const json::object& among) {
  const std::string_view name(field.key().data(), field.key().size());
  const auto& said = field.value();
  if (std::ranges::find(annotations, name) != annotations.end() || name.starts_with("x-")) return true;
  if (name == "format") {
    if (!said.is_string()) return false;
    const auto* pattern = among.if_contains("pattern");
    return !is_format(text_of(said.get_string())) || (pattern != nullptr && !is_by_format(said, pattern));
  }
  if (name == "nullable" || name == "uniqueItems") return said.is_bool() && !said.get_bool();
  if (name == "minProperties") return said.is_number() && said.to_number<double>() == 0;
  if (name == "multipleOf") return said.is_number() && said.to_number<double>() == 1 && only_integers(among);
  return name == "propertyNames" && holds_for_names(said);
}

bool means_something(const json::key_value_pair& field, const json::object& among) {
  return !says_nothing(field, among) || (field.key() == "discriminator" && among.contains("oneOf"));
}

bool is_nullable(const json::object& schema) {
  const auto* said = schema.if_contains("nullable");
  return said != nullptr && said->is_bool() && said->get_bool();
}

std::string below(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}
std::string below(const std::string& path, std::size_t index) { return path + "[" + std::to_string(index) + "]"; }

void schema_compiler::fail(std::string path, std::string message) const {
  throw schema_fault{{std::move(path), std::move(message)}};
}

void schema_compiler::count_schema(const std::string& path) {
  if (++schemas_ > limits_.schemas_max)
    fail(path, "more than " + std::to_string(limits_.schemas_max) + " subschemas in all");
}

void schema_compiler::count_work(std::size_t nodes, const std::string& path) {
  work_ += nodes;
  if (work_ > limits_.work_max)
    fail(path, "too much to put together for allOf, anyOf, oneOf, a $ref with other keywords or additionalProperties");
}

term_id schema_compiler::compile(std::vector<term_id>& rules) {
  rules_ = rules; // of other documents of the grammar
  const auto start = schema(root_, "", 0);
  for (; !open_.empty(); open_.pop_front()) {
    const auto [rule, pointer] = open_.front();
    std::string path = pointer.substr(pointer.empty() ? 0 : 1);
    std::ranges::replace(path, '/', '.');
    rules_[rule] = schema(target("#" + pointer, path), path, 0);
  }
  rules = rules_;
  return start;
}

term_id schema_compiler::new_rule(term_id body) {
  rules_.push_back(body);
  return terms_.rule(static_cast<std::uint32_t>(rules_.size() - 1));
}

term_id schema_compiler::any_value() {
  if (any_ != term_table::nothing) return any_;
  any_ = new_rule(term_table::nothing);
  const auto place = rules_.size() - 1;
  const auto space = white_space(terms_);
  const auto list = [&](char open, term_id element, char close) {
    const auto more = terms_.repeat(terms_.sequence({terms_.byte(','), space, element}), 0, unlimited);
    const auto end = terms_.byte(static_cast<std::uint8_t>(close));
    return terms_.sequence({terms_.byte(static_cast<std::uint8_t>(open)), space,
                            terms_.choice({end, terms_.sequence({element, more, space, end})})});
  };
  const auto text = any_string(terms_, 0, unlimited);
  const auto pair = terms_.sequence({text, terms_.byte(':'), space, any_});
  rules_[place] = terms_.choice({list('{', pair, '}'), list('[', any_, ']'), text, any_number(terms_),
                                 terms_.literal("true"), terms_.literal("false"), terms_.literal("null")});
  return any_;
}

void schema_compiler::check_keywords(const object& from, const std::string& path) const {
  for (const auto& field : from) {
    const std::string_view name(field.key().data(), field.key().size());
    if (name == "$id" && !path.empty()) fail(below(path, name), "'$id' is supported at the top only");
    if (name == "nullable" && !field.value().is_bool()) fail(below(path, name), "it must be true or false");
    if (says_nothing(field, from) || find_keyword(name) != nullptr) continue;
    fail(below(path, name), "the keyword '" + std::string(name.substr(0, 64)) + "' is not supported");
  }
}

term_id schema_compiler::schema(const value& from, const std::string& path, std::size_t depth) {
  if (depth > limits_.depth_max) fail(path, "schemas nested more than " + std::to_string(limits_.depth_max) + " deep");
  count_schema(path);
  if (from.is_bool()) return from.get_bool() ? any_value() : term_table::nothing;
  if (!from.is_object()) fail(path, "a schema must be an object or a boolean");
  check_keywords(from.get_object(), path);
  return keywords(from.get_object(), path, depth);
}

term_id schema_compiler::keywords(const object& from, const std::string& path, std::size_t depth) {
  if (is_nullable(from))
    return terms_.choice({keywords(without_nullable(from, path), path, depth + 1), terms_.literal("null")});
  if (from.contains("$ref") || from.contains("allOf")) {
    const auto meanings = std::ranges::count_if(from, [&](const auto& field) { return !says_nothing(field, from); });
    if (const auto* to = from.if_contains("$ref"); to != nullptr && meanings == 1) {
      if (!to->is_string()) fail(below(path, "$ref"), "it must be a string");
      return reference(text_of(to->get_string()), path);
    }
    // Nothing to put together, so that a $ref inside may be recursive.
    if (const auto* all = from.if_contains("allOf");
        all != nullptr && meanings == 1 && all->is_array() && all->get_array().size() == 1)
      return schema(all->get_array()[0], below(below(path, "allOf"), 0), depth + 1);
    return keywords(without_references(from, path, depth + 1), path, depth + 1);
  }
  for (const auto* name : {"anyOf", "oneOf"})
    if (from.contains(name)) return alternatives(from, name, path, depth);
  if (from.contains("enum") || from.contains("const")) return listed(from, path);

  std::vector<term_id> all;
  const auto types = types_of(from, path);
  if (types.empty()) return any_value();
  for (const auto& type : types) all.push_back(typed(type, from, path, depth));
  return terms_.choice(all);
}

std::set<std::string, std::less<>> schema_compiler::types_of(const object& from, const std::string& path) const {
  constexpr std::array<std::string_view, 7> names{"string", "number", "integer", "boolean", "null", "object", "array"};
  std::set<std::string, std::less<>> types;
  const auto add = [&](const value& type, const std::string& place) {
    if (!type.is_string() || std::ranges::find(names, text_of(type.get_string())) == names.end())
      fail(place, "a type is one of string, number, integer, boolean, null, object, array");
    types.emplace(text_of(type.get_string()));
  };
  if (const auto* type = from.if_contains("type")) {
    const auto place = below(path, "type");
    if (type->is_array()) {
      if (type->get_array().empty()) fail(place, "a list of types must not be empty");
      for (std::size_t i = 0; i < type->get_array().size(); ++i) add(type->get_array()[i], below(place, i));
    } else {
      add(*type, place);
    }
    if (types.contains("number")) types.erase("integer");
    return types;
  }
  for (const auto& field : from)
    if (const auto* word = find_keyword({field.key().data(), field.key().size()});
        word != nullptr && !word->type.empty() && !says_nothing(field, from))
      types.emplace(word->type);
  return types;
}

term_id schema_compiler::alternatives(const object& from, std::string_view name, const std::string& path,
                                      std::size_t depth) {
  const auto place = below(path, name);
  const auto& list = from.at(name);
  if (!list.is_array() || list.get_array().empty()) fail(place, "it must be an array of schemas");
  const auto& all = list.get_array();
  if (all.size() > limits_.alternatives_max)
    fail(place, "more than " + std::to_string(limits_.alternatives_max) + " alternatives");
  object rest;
  bool tagged = false;
  for (std::size_t i = 0; name == "oneOf" && i < all.size(); ++i)
    for (std::size_t k = 0; k < i && !tagged; ++k)
      if (!exclusive(all[k], all[i], place, 0)) {
        // A tag that has a default is not required (Pydantic); it tells the alternatives apart where it stands.
        tagged = told_apart(from, all, place);
        if (!tagged)
          fail(place, "alternatives " + std::to_string(k) + " and " + std::to_string(i) +
                          " may both hold for one value, as far as can be seen; tell them apart by their type or by a "
                          "required property with different constants, or use anyOf");
      }
  for (const auto& field : from)
    if (const std::string_view key(field.key().data(), field.key().size()); key != name && means_something(field, from))
      rest.insert(field);
  if (name == "oneOf") {
    rest.erase("discriminator");
    if (tagged) {
      object tag;
      tag["required"] = json::array{from.at("discriminator").at("propertyName")};
      rest = merged(rest, tag, path, depth + 1);
    }
  }
  std::vector<term_id> parts;
  std::optional<term_id> alone; // of `rest`, for all alternatives that ask for nothing more
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto here = below(place, i);
    if (rest.empty() || all[i] == false) {
      parts.push_back(schema(all[i], here, depth + 1));
      continue;
    }
    if (!all[i].is_object() && !all[i].is_bool()) fail(here, "a schema must be an object or a boolean");
    count_schema(path);
    if (asks_for_nothing(all[i])) {
      if (all[i].is_object()) check_keywords(all[i].get_object(), here);
      if (!alone) parts.push_back(alone.emplace(keywords(rest, path, depth + 1)));
      continue;
    }
    parts.push_back(
        keywords(merged(rest, without_references(all[i], here, depth + 1), here, depth + 1), here, depth + 1));
  }
  return terms_.choice(parts);
}

term_id schema_compiler::listed(const object& from, const std::string& path) {
  std::vector<const value*> allowed;
  if (const auto* list = from.if_contains("enum")) {
    const auto place = below(path, "enum");
    if (!list->is_array() || list->get_array().empty()) fail(place, "it must be an array that is not empty");
    if (list->get_array().size() > limits_.alternatives_max)
      fail(place, "more than " + std::to_string(limits_.alternatives_max) + " values");
    for (const auto& one : list->get_array()) allowed.push_back(&one);
  }
  if (const auto* constant = from.if_contains("const")) {
    if (!from.contains("enum")) allowed.push_back(constant);
    std::erase_if(allowed, [&](const value* one) { return *one != *constant; });
  }
  const auto types = from.contains("type") ? types_of(from, path) : std::set<std::string, std::less<>>{};
  std::erase_if(allowed, [&](const value* one) {
    const auto type = type_name(*one);
    return !types.empty() && !types.contains(type) && !(type == "integer" && types.contains("number"));
  });
  keep_valid(allowed, from, path);
  for (const auto& field : from) {
    const std::string_view name(field.key().data(), field.key().size());
    if (name == "enum" || name == "const" || name == "type" || says_nothing(field, from)) continue;
    const auto* word = find_keyword(name);
    if (word->type == "string" || word->type == "number") continue; // only what keeps it is left
    // A keyword about another type says nothing about these values.
    const auto about = word->type;
    if (std::ranges::none_of(allowed, [&](const value* one) { return type_name(*one) == about; })) continue;
    fail(below(path, name), "'" + std::string(name) + "' beside enum or const is not supported");
  }
  std::vector<term_id> parts;
  for (const auto* one : allowed) parts.push_back(value_text(terms_, *one));
  const auto all = terms_.choice(parts);
  // What follows a long text is joined to each of its characters.
  constexpr std::size_t text_max = 64;
  const bool is_long = std::ranges::any_of(allowed, [](const value* one) {
    return one->is_structured() || (one->is_string() && one->get_string().size() > text_max);
  });
  return parts.size() > 1 || (parts.size() == 1 && is_long) ? new_rule(all) : all;
}

void schema_compiler::keep_valid(std::vector<const value*>& listed, const object& from, const std::string& path) {
  const auto said = [&](std::string_view name) {
    const auto* bound = from.if_contains(name);
    if (bound != nullptr && !bound->is_number()) fail(below(path, name), "it must be a number");
    return bound;
  };
  if (std::ranges::any_of(listed, [](const value* one) { return one->is_number(); })) {
    const auto *least = said("minimum"), *above = said("exclusiveMinimum"), *most = said("maximum"),
               *under = said("exclusiveMaximum");
    std::erase_if(listed, [&](const value* one) {
      return one->is_number() &&
             ((least != nullptr && compare(*one, *least) < 0) || (above != nullptr && compare(*one, *above) <= 0) ||
              (most != nullptr && compare(*one, *most) > 0) || (under != nullptr && compare(*one, *under) >= 0));
    });
  }
  if (std::ranges::none_of(listed, [](const value* one) { return one->is_string(); })) return;
  const auto least = count_of(from, "minLength", 0, path), most = count_of(from, "maxLength", unlimited, path);
  std::erase_if(listed, [&](const value* one) {
    const auto length = one->is_string() ? characters_of(text_of(one->get_string())).size() : 0;
    return one->is_string() && (length < least || length > most);
  });
  const auto* pattern = from.if_contains("pattern");
  if (pattern == nullptr) return;
  const auto place = below(path, "pattern");
  if (!pattern->is_string()) fail(place, "it must be a string");
  const auto text = without_look_around(text_of(pattern->get_string()));
  auto known = searches_.find(text);
  if (known == searches_.end()) {
    auto made = search_for(text);
    if (!made) fail(place, made.error());
    terms_.spend(2 * (*made)->work()); // it was copied, too
    known = searches_.emplace(text, std::move(*made)).first;
  }
  auto& search = *known->second;
  const auto before = search.work();
  std::erase_if(listed, [&](const value* one) {
    if (!one->is_string()) return false;
    terms_.spend(one->get_string().size());
    return !search.may_end(search.advance(search.start(), text_of(one->get_string())));
  });
  terms_.spend(search.work() - before);
  if (search.exhausted()) fail(place, std::string(search_too_complex));
}

term_id schema_compiler::typed(std::string_view type, const object& from, const std::string& path, std::size_t depth) {
  if (type == "string") return string_of(from, path);
  if (type == "number") return number_of(from, path, false);
  if (type == "integer") return number_of(from, path, true);
  if (type == "boolean") return terms_.choice({terms_.literal("true"), terms_.literal("false")});
  if (type == "null") return terms_.literal("null");
  return type == "array" ? array_of(from, path, depth) : object_of(from, path, depth);
}

term_id schema_compiler::string_of(const object& from, const std::string& path) {
  const auto least = count_of(from, "minLength", 0, path), most = count_of(from, "maxLength", unlimited, path);
  const bool lengths = from.contains("minLength") || from.contains("maxLength");
  if (least > most) return term_table::nothing;
  const auto *pattern = from.if_contains("pattern"), *format = from.if_contains("format");
  const bool by_format = format != nullptr && (pattern == nullptr || is_by_format(*format, pattern));
  if (!by_format && pattern == nullptr) return any_string(terms_, least, most);
  const std::string name = by_format ? "format" : "pattern";
  const auto& said = by_format ? *format : *pattern;
  if (!said.is_string()) fail(below(path, name), "it must be a string");
  std::string text(without_look_around(text_of(said.get_string())));
  if (by_format) {
    const auto of = pattern_of_format(text);
    if (!of) return any_string(terms_, least, most);
    text = *of;
  }
  auto known = patterns_.find(text);
  if (known == patterns_.end()) {
    pattern_context context;
    context.character = [this](const character_set& set) { return in_json_string(terms_, set); };
    context.around = terms_.repeat(any_json_character(terms_), 0, unlimited);
    auto compiled = compile_pattern(terms_, text, context);
    if (!compiled) fail(below(path, name), compiled.error());
    known = patterns_.emplace(text, *compiled).first;
  }
  auto matches = known->second;
  if (lengths) {
    const auto within = matches_of_length(terms_, matches, text, least, most);
    if (!within && pattern == nullptr) return any_string(terms_, least, most);
    if (!within)
      fail(below(path, "pattern"),
           "'pattern' together with 'minLength' or 'maxLength' is not supported; say the lengths in "
           "the pattern");
    matches = *within;
  }
  const auto quote = terms_.byte('"');
  const auto all = terms_.sequence({quote, matches, quote});
  return all == term_table::nothing ? all : new_rule(all);
}

term_id schema_compiler::number_of(const object& from, const std::string& path, bool integer) {
  bool bounded = false;
  const auto bound = [&](std::string_view inclusive, std::string_view exclusive_name,
                         bool lower) -> std::optional<number_bound> {
    std::optional<number_bound> out;
    double strictest = 0.0;
    for (const auto& [name, strict] : {std::pair(inclusive, false), std::pair(exclusive_name, true)}) {
      const auto* said = from.if_contains(name);
      if (said == nullptr) continue;
      if (!said->is_number()) fail(below(path, name), "it must be a number");
      const auto one = bound_of(*said, strict);
      bounded = true;
      if (one && one->beyond && one->negative == lower) continue; // every number of an answer keeps it
      if (!one || one->beyond)
        fail(below(path, name), "bounds of numbers may have " + std::to_string(integer_digits_max) +
                                    " digits before the point and " + std::to_string(fraction_digits_max - 1) +
                                    " behind it");
      const auto number = said->to_number<double>();
      if (!out || (lower ? number >= strictest : number <= strictest)) {
        out = one;
        strictest = number;
      }
    }
    return out;
  };
  const auto low = bound("minimum", "exclusiveMinimum", true), high = bound("maximum", "exclusiveMaximum", false);
  if (!low && !high && integer) return any_integer(terms_);
  if (!bounded) return any_number(terms_);
  const auto all = integer ? integers_between(terms_, low, high) : numbers_between(terms_, low, high);
  return all == term_table::nothing ? all : new_rule(all);
}

term_id schema_compiler::array_of(const object& from, const std::string& path, std::size_t depth) {
  const auto least = count_of(from, "minItems", 0, path), most = count_of(from, "maxItems", unlimited, path);
  if (least > most) return term_table::nothing;
  std::vector<term_id> first;
  if (const auto* list = from.if_contains("prefixItems")) {
    const auto place = below(path, "prefixItems");
    if (!list->is_array() || list->get_array().size() > limits_.alternatives_max)
      fail(place, "it must be an array of at most " + std::to_string(limits_.alternatives_max) + " schemas");
    for (std::size_t i = 0; i < list->get_array().size(); ++i)
      first.push_back(schema(list->get_array()[i], below(place, i), depth + 1));
  }
  auto element = term_table::nothing;
  if (const auto* items = from.if_contains("items")) {
    if (items->is_array()) fail(below(path, "items"), "a list of schemas is written as 'prefixItems'");
    element = schema(*items, below(path, "items"), depth + 1);
  } else {
    element = any_value();
  }
  const auto space = white_space(terms_), end = terms_.byte(']'), comma = terms_.sequence(terms_.byte(','), space);
  const auto positions = static_cast<std::uint32_t>(first.size());
  // What follows the n-th element, from behind.
  const auto minus = [](std::uint32_t a, std::uint32_t b) { return a > b ? a - b : 0; };
  auto rest = terms_.sequence({terms_.repeat(terms_.sequence(comma, element), minus(least, std::max(positions, 1U)),
                                             most == unlimited ? most : minus(most, std::max(positions, 1U))),
                               space, end});
  for (auto n = positions; n > 1; --n) {
    const auto more = n > most ? term_table::nothing : terms_.sequence({comma, first[n - 1], rest});
    rest = new_rule(terms_.choice({more, least < n ? terms_.sequence(space, end) : term_table::nothing}));
  }
  const auto head = most == 0 ? term_table::nothing : terms_.sequence(positions > 0 ? first[0] : element, rest);
  return new_rule(
      terms_.sequence({terms_.byte('['), space, terms_.choice({head, least == 0 ? end : term_table::nothing})}));
}

term_id schema_compiler::member(std::string_view name, term_id of) {
  return terms_.sequence({terms_.literal(quoted(name) + ":"), white_space(terms_), of});
}

term_id schema_compiler::object_of(const object& from, const std::string& path, std::size_t depth) {
  struct property {
    std::string name;
    term_id of;
    bool required;
  };
  std::vector<property> all;
  std::size_t letters = 0;
  const auto check_name = [&](std::string_view name) {
    letters += name.size();
    if (letters > limits_.name_bytes_max || name.size() > 256)
      fail(below(path, "properties"),
           "names of more than 256 bytes, or of more than " + std::to_string(limits_.name_bytes_max) + " together");
    if (all.size() >= limits_.properties_max)
      fail(below(path, "properties"), "more than " + std::to_string(limits_.properties_max) + " properties");
  };
  if (const auto* properties = from.if_contains("properties")) {
    const auto place = below(path, "properties");
    if (!properties->is_object()) fail(place, "it must be an object");
    for (const auto& field : properties->get_object()) {
      std::string name(field.key().data(), field.key().size());
      check_name(name);
      const auto of = schema(field.value(), below(place, name), depth + 1);
      all.push_back({std::move(name), of, false});
    }
  }
  // Where properties are declared, others are left out unless the schema names them.
  auto additional = term_table::nothing;
  bool named = false;
  if (const auto* more = from.if_contains("additionalProperties")) {
    additional = schema(*more, below(path, "additionalProperties"), depth + 1);
    named = true;
  } else if (!from.contains("properties")) {
    additional = any_value();
  }
  if (const auto* required = from.if_contains("required")) {
    const auto place = below(path, "required");
    if (!required->is_array()) fail(place, "it must be an array of names");
    for (std::size_t i = 0; i < required->get_array().size(); ++i) {
      const auto& name = required->get_array()[i];
      if (!name.is_string()) fail(below(place, i), "it must be a string");
      count_work(1 + all.size() / names_per_node, below(place, i));
      auto found = std::ranges::find(all, text_of(name.get_string()), &property::name);
      if (found == all.end()) {
        if (named && additional == term_table::nothing)
          fail(below(place, i), "'" + std::string(text_of(name.get_string()).substr(0, 64)) +
                                    "' is not among the properties, and additionalProperties forbids others");
        check_name(text_of(name.get_string()));
        all.push_back({std::string(text_of(name.get_string())), named ? additional : any_value(), false});
        found = all.end() - 1;
      }
      found->required = true;
    }
  }

  const auto space = white_space(terms_), close = terms_.byte('}');
  const auto comma = terms_.sequence(terms_.byte(','), space), end = terms_.sequence(space, close);
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(one.name);
  auto other = term_table::nothing;
  // Each character of a name parts all others from it.
  auto before = terms_.work();
  const auto spent = [&] {
    count_work((terms_.work() - before) / terms_per_value, below(path, "additionalProperties"));
    before = terms_.work();
  };
  if (additional != term_table::nothing)
    other = terms_.sequence({new_rule(string_other_than(terms_, names, spent)), terms_.byte(':'), space, additional});
  // What follows when something stands already, and when nothing does; from behind.
  auto more = terms_.sequence(terms_.repeat(terms_.sequence(comma, other), 0, unlimited), end);
  auto first = terms_.choice({close, terms_.sequence(other, more)});
  for (auto i = all.size(); i-- > 0;) {
    const auto one = member(all[i].name, all[i].of);
    const auto rest = new_rule(more);
    const auto here = terms_.sequence(one, rest), next = terms_.sequence(comma, here);
    first = all[i].required ? here : terms_.choice({here, i + 1 == all.size() ? first : new_rule(first)});
    more = all[i].required ? next : terms_.choice({next, rest});
  }
  return new_rule(terms_.sequence({terms_.byte('{'), space, first}));
}

} // namespace godwit::protocols::grammar
