#include "protocols/grammar/random_schemas.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>
#include <string_view>
#include <vector>

namespace godwit::protocols::grammar::testing_support {

namespace json = boost::json;

namespace {

struct pattern {
  const char* text;
  std::array<const char*, 3> matches;
};
constexpr std::array<pattern, 5> patterns{{{"^[a-c]{2,4}$", {"ab", "abca", "cc"}},
                                           {"^(?:foo|ba[rz])-[0-9]+$", {"foo-1", "baz-99", "bar-0"}},
                                           {"x+y", {"xy", "axxyb", "..xy"}},
                                           {"^[A-Z][a-z]*(?: [A-Z][a-z]*)*$", {"Ada", "Ada L", "X Y Z"}},
                                           {"^q|z$", {"q", "z", "qa"}}}};
constexpr std::array<const char*, 3> dates{"2024-02-29", "1999-12-31", "2000-01-01"};
constexpr std::array<const char*, 5> names{"a", "ab", "name", "é", "x y"};

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

const json::value& resolved(const json::value& schema, const json::value& root) {
  if (!schema.is_object()) return schema;
  const auto* to = schema.get_object().if_contains("$ref");
  if (to == nullptr) return schema;
  return root.at_pointer(to->as_string().subview(1));
}

std::int64_t number(const json::object& from, const char* name, std::int64_t otherwise) {
  const auto* found = from.if_contains(name);
  return found == nullptr ? otherwise : found->to_number<std::int64_t>();
}

bool has_type(std::string_view type, const json::value& of) {
  if (type == "null") return of.is_null();
  if (type == "boolean") return of.is_bool();
  if (type == "string") return of.is_string();
  if (type == "array") return of.is_array();
  if (type == "object") return of.is_object();
  if (type == "number") return of.is_number();
  return of.is_int64() || of.is_uint64() || (of.is_double() && std::trunc(of.get_double()) == of.get_double());
}

bool valid_string(const json::object& s, std::string_view text) {
  const auto length = static_cast<std::int64_t>(characters(text));
  if (length < number(s, "minLength", 0) || length > number(s, "maxLength", 1 << 30)) return false;
  if (const auto* pattern = s.if_contains("pattern")) {
    const std::string plain(text);
    if (!std::regex_search(plain, std::regex(pattern->as_string().c_str()))) return false;
  }
  if (s.contains("format")) {
    static const std::regex date("[0-9]{4}-[0-9]{2}-[0-9]{2}");
    const std::string plain(text);
    if (!std::regex_match(plain, date)) return false;
    const int year = std::stoi(plain), month = std::stoi(plain.substr(5)), day = std::stoi(plain.substr(8));
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    constexpr std::array<int, 12> days{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || month > 12 || day < 1) return false;
    return day <= days[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
  }
  return true;
}

bool valid_object(const json::object& s, const json::object& of, const json::value& root) {
  if (const auto* required = s.if_contains("required"))
    for (const auto& name : required->as_array())
      if (!of.contains(name.as_string())) return false;
  const auto* properties = s.if_contains("properties");
  const auto* additional = s.if_contains("additionalProperties");
  for (const auto& member : of) {
    const auto* own = properties != nullptr ? properties->as_object().if_contains(member.key()) : nullptr;
    const auto* by = own != nullptr ? own : additional;
    if (by != nullptr && !valid(*by, member.value(), root)) return false;
  }
  return true;
}

bool valid_array(const json::object& s, const json::array& of, const json::value& root) {
  const auto size = static_cast<std::int64_t>(of.size());
  if (size < number(s, "minItems", 0) || size > number(s, "maxItems", 1 << 30)) return false;
  const auto* first = s.if_contains("prefixItems");
  const auto* items = s.if_contains("items");
  for (std::size_t i = 0; i < of.size(); ++i) {
    const bool listed = first != nullptr && i < first->as_array().size();
    const auto* by = listed ? &first->as_array()[i] : items;
    if (by != nullptr && !valid(*by, of[i], root)) return false;
  }
  return true;
}

} // namespace

bool valid(const json::value& schema, const json::value& of, const json::value& root) {
  if (schema.is_bool()) return schema.get_bool();
  const auto& s = schema.as_object();
  if (s.contains("$ref") && !valid(resolved(schema, root), of, root)) return false;
  if (const auto* any = s.if_contains("anyOf"))
    if (std::ranges::none_of(any->as_array(), [&](const auto& each) { return valid(each, of, root); })) return false;
  if (const auto* all = s.if_contains("allOf"))
    if (!std::ranges::all_of(all->as_array(), [&](const auto& each) { return valid(each, of, root); })) return false;
  if (const auto* list = s.if_contains("enum"))
    if (std::ranges::find(list->as_array(), of) == list->as_array().end()) return false;
  if (const auto* constant = s.if_contains("const"))
    if (of != *constant) return false;
  if (const auto* type = s.if_contains("type")) {
    const bool right =
        type->is_string()
            ? has_type(type->as_string(), of)
            : std::ranges::any_of(type->as_array(), [&](const auto& t) { return has_type(t.as_string(), of); });
    if (!right) return false;
  }
  if (of.is_number()) {
    const auto value = of.to_number<double>();
    const auto bound = [&](const char* name) { return s.if_contains(name); };
    if (bound("minimum") != nullptr && value < bound("minimum")->to_number<double>()) return false;
    if (bound("maximum") != nullptr && value > bound("maximum")->to_number<double>()) return false;
    if (bound("exclusiveMinimum") != nullptr && value <= bound("exclusiveMinimum")->to_number<double>()) return false;
    if (bound("exclusiveMaximum") != nullptr && value >= bound("exclusiveMaximum")->to_number<double>()) return false;
  }
  if (of.is_string()) return valid_string(s, of.get_string());
  if (of.is_array()) return valid_array(s, of.get_array(), root);
  if (of.is_object()) return valid_object(s, of.get_object(), root);
  return true;
}

json::object schema_maker::schema(int depth) {
  json::object s;
  if (below(8) == 0) s["description"] = "of no matter";
  switch (below(depth > 0 ? 14U : 9U)) {
  case 0:
    s["type"] = "string";
    if (below(2) == 0) s["minLength"] = below(3);
    if (below(2) == 0) s["maxLength"] = 3 + below(20);
    break;
  case 1:
    s["type"] = "string";
    s["pattern"] = patterns[below(patterns.size())].text;
    break;
  case 2:
    s["type"] = "string";
    s["format"] = "date";
    break;
  case 3: {
    s["type"] = "integer";
    const auto low = static_cast<int>(below(400)) - 200;
    if (below(2) == 0) s[below(2) == 0 ? "minimum" : "exclusiveMinimum"] = low;
    if (below(2) == 0) s[below(2) == 0 ? "maximum" : "exclusiveMaximum"] = low + 2 + static_cast<int>(below(1000));
    break;
  }
  case 4: {
    s["type"] = "number";
    const auto low = (static_cast<int>(below(400)) - 200) / 8.0;
    if (below(2) == 0) s[below(2) == 0 ? "minimum" : "exclusiveMinimum"] = low;
    if (below(2) == 0) s[below(2) == 0 ? "maximum" : "exclusiveMaximum"] = low + (1 + below(1000)) / 4.0;
    break;
  }
  case 5:
    s["type"] = json::array{"boolean", "null"};
    break;
  case 6:
    s["enum"] = json::array{"red", "re\"d", 1, 1.5, nullptr, json::array{1, "x"}, json::object{{"k", false}}};
    break;
  case 7:
    s["const"] = below(2) == 0 ? json::value("only\nthis") : json::value(42);
    break;
  case 8:
    s["$ref"] = "#/$defs/d" + std::to_string(below(3));
    break;
  case 9:
  case 10:
    s["type"] = "array";
    if (below(3) == 0) s["prefixItems"] = json::array{schema(depth - 1), schema(depth - 1)};
    if (below(3) > 0) s["items"] = schema(depth - 1);
    if (below(2) == 0) s["minItems"] = below(3);
    if (below(2) == 0) s["maxItems"] = 2 + below(4);
    break;
  case 11:
    s["anyOf"] = json::array{schema(depth - 1), schema(depth - 1)};
    break;
  default: {
    s["type"] = "object";
    json::object properties;
    json::array required;
    for (const auto* name : names) {
      if (below(2) == 0) continue;
      properties[name] = schema(depth - 1);
      if (below(2) == 0) required.emplace_back(name);
    }
    s["properties"] = properties;
    s["required"] = required;
    switch (below(3)) {
    case 0:
      s["additionalProperties"] = false;
      break;
    case 1:
      s["additionalProperties"] = schema(0);
      break;
    default:
      break;
    }
  }
  }
  return s;
}

json::value schema_maker::document() {
  auto s = schema(3);
  json::object definitions;
  for (int i = 0; i < 3; ++i) definitions["d" + std::to_string(i)] = schema(2);
  s["$defs"] = std::move(definitions);
  return s;
}

std::string schema_maker::space() {
  switch (below(4)) {
  case 0:
    return " ";
  case 1:
    return "\n" + std::string(below(8), ' ');
  default:
    return {};
  }
}

std::string schema_maker::string_text(std::uint32_t least, std::uint32_t most) {
  constexpr std::array<const char*, 12> pieces{"a", "Z",   " ", "é", "😀", "\\n", "\\\"", "\\u00e9", "\\ud83d\\ude00",
                                               "{", "\\/", "中"};
  std::string out = "\"";
  for (auto n = least + below(std::min(most - least, 12U) + 1); n > 0; --n) out += pieces[below(pieces.size())];
  return out + "\"";
}

std::string schema_maker::text_for(const json::value& from, const json::value& root, int depth) {
  if (depth < 0) return {};
  const auto& schema = resolved(from, root);
  const auto& s = schema.as_object();
  if (s.contains("$ref")) return text_for(schema, root, depth - 1);
  if (const auto* any = s.if_contains("anyOf")) {
    const auto first = below(2);
    auto text = text_for(any->as_array()[first], root, depth - 1);
    return text.empty() ? text_for(any->as_array()[1 - first], root, depth - 1) : text;
  }
  if (const auto* list = s.if_contains("enum")) {
    const auto& one = list->as_array()[below(static_cast<std::uint32_t>(list->as_array().size()))];
    return one.is_double() ? "1.5" : json::serialize(one);
  }
  if (const auto* constant = s.if_contains("const")) return json::serialize(*constant);
  if (s.at("type").is_array()) return below(2) == 0 ? "null" : below(2) == 0 ? "true" : "false";
  const std::string_view type(s.at("type").as_string());
  if (type == "string") {
    if (const auto* wanted = s.if_contains("pattern"))
      for (const auto& one : patterns)
        if (wanted->as_string() == one.text) return "\"" + std::string(one.matches[below(3)]) + "\"";
    if (s.contains("format")) return "\"" + std::string(dates[below(3)]) + "\"";
    return string_text(static_cast<std::uint32_t>(number(s, "minLength", 0)),
                       static_cast<std::uint32_t>(number(s, "maxLength", 30)));
  }
  if (type == "integer" || type == "number") {
    for (int i = 0; i < 2000; ++i) {
      const json::value whole(static_cast<std::int64_t>(below(3000)) - 1500);
      const json::value part((static_cast<int>(below(16000)) - 8000) / 16.0);
      const bool integer = type == "integer" || below(2) == 0;
      const auto& one = integer ? whole : part;
      if (!valid(schema, one, root)) continue;
      if (integer) return std::to_string(whole.get_int64());
      auto text = std::to_string(part.get_double());
      return text.starts_with("-0.000000") ? "0" : text;
    }
    return {};
  }
  if (type == "array") {
    const auto *first = s.if_contains("prefixItems"), *items = s.if_contains("items");
    const auto least = number(s, "minItems", 0), most = std::min<std::int64_t>(number(s, "maxItems", 5), least + 4);
    const auto count = least + below(static_cast<std::uint32_t>(most - least + 1));
    std::string out = "[" + space();
    for (std::int64_t i = 0; i < count; ++i) {
      const bool listed = first != nullptr && i < 2;
      const auto* by = listed ? &first->as_array()[static_cast<std::size_t>(i)] : items;
      const auto text = by == nullptr ? std::string("[{}]") : text_for(*by, root, depth - 1);
      if (text.empty()) return {};
      out += (i > 0 ? "," + space() : "") + text;
    }
    return out + (count > 0 ? space() : "") + "]";
  }
  std::string out = "{" + space();
  bool any = false;
  const auto add = [&](const std::string& name, const std::string& text) {
    out += (any ? "," + space() : "") + name + ":" + space() + text;
    any = true;
  };
  for (const auto& property : s.at("properties").as_object()) {
    const auto& required = s.at("required").as_array();
    const bool needed = std::ranges::find(required, json::value(property.key())) != required.end();
    if (!needed && below(2) == 0) continue;
    const auto text = text_for(property.value(), root, depth - 1);
    if (text.empty() && needed) return {};
    if (!text.empty()) add(json::serialize(json::value(property.key())), text);
  }
  const auto* more = s.if_contains("additionalProperties");
  if (more != nullptr && more->is_object() && below(2) == 0)
    if (const auto text = text_for(*more, root, depth - 1); !text.empty()) add("\"an\\\"other\"", text);
  return out + (any ? space() : "") + "}";
}

} // namespace godwit::protocols::grammar::testing_support
