#include "grammar/schema_compiler.hpp"

#include <algorithm>
#include <charconv>
#include <span>

namespace godwit::protocols::grammar {

namespace json = boost::json;

namespace {

constexpr std::size_t compared_per_node = 8; ///< values that are compared in the time that work on a node takes

/// A fragment's %XX.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

constexpr std::size_t bytes_per_node = 64; ///< of text that is copied in the time that work on a node takes

/// Values within a value, long texts as several.
std::size_t size_of(const json::value& of) {
  std::size_t size = 1;
  if (of.is_string()) size += of.get_string().size() / bytes_per_node;
  if (of.is_array())
    for (const auto& each : of.get_array()) size += size_of(each);
  if (of.is_object())
    for (const auto& each : of.get_object()) size += size_of(each.value()) + each.key().size() / bytes_per_node;
  return size;
}

/// As JSON Schema compares: 1 and 1.0 are the same number.
bool same_value(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) {
    if (!a.is_double() && !b.is_double()) return a == b;
    return a.to_number<double>() == b.to_number<double>();
  }
  if (a.is_array() && b.is_array()) return std::ranges::equal(a.get_array(), b.get_array(), same_value);
  if (a.is_object() && b.is_object())
    return a.get_object().size() == b.get_object().size() &&
           std::ranges::all_of(a.get_object(), [&](const auto& field) {
             const auto* other = b.get_object().if_contains(field.key());
             return other != nullptr && same_value(field.value(), *other);
           });
  return a == b;
}

/// What the types and their keywords say, or null.
json::object or_null(json::object of, const std::set<std::string, std::less<>>& types) {
  if (std::ranges::none_of(of, [](const auto& field) {
        return field.key() == "enum" || field.key() == "const" || field.key() == "anyOf" || field.key() == "oneOf";
      })) {
    if (types.empty()) return of; // any value
    json::array list{"null"};
    for (const auto& type : types)
      if (type != "null") list.emplace_back(json::string(type));
    of["type"] = std::move(list);
    return of;
  }
  json::object null, either;
  null["type"] = "null";
  either["anyOf"] = json::array{std::move(of), std::move(null)};
  return either;
}

/// One step of a JSON pointer.
std::string step_of(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const bool escape = token[i] == '~' && i + 1 < token.size() && (token[i + 1] == '0' || token[i + 1] == '1');
    out += escape ? (token[++i] == '0' ? '~' : '/') : token[i];
  }
  return out;
}

} // namespace

const json::value& schema_compiler::target(std::string_view reference, const std::string& path) const {
  const auto bad = [&](const std::string& why) {
    fail(below(path, "$ref"), "'" + std::string(reference.substr(0, 128)) + "' " + why);
  };
  if (!reference.starts_with('#')) bad("is outside of this schema; only references that begin with '#' are supported");
  const auto pointer = unescaped(reference.substr(1));
  if (!pointer.empty() && pointer.front() != '/') bad("is not a JSON pointer; anchors are not supported");
  const auto* at = &root_;
  for (std::size_t i = 0; i < pointer.size();) {
    const auto end = std::min(pointer.find('/', i + 1), pointer.size());
    const auto step = step_of(std::string_view(pointer).substr(i + 1, end - i - 1));
    i = end;
    const value* next = nullptr;
    if (at->is_object()) {
      next = at->get_object().if_contains(step);
    } else if (at->is_array()) {
      std::size_t index = 0;
      const auto read = std::from_chars(step.data(), step.data() + step.size(), index);
      if (read.ec == std::errc{} && read.ptr == step.data() + step.size() && index < at->get_array().size())
        next = &at->get_array()[index];
    }
    if (next == nullptr) bad("leads nowhere");
    at = next;
  }
  return *at;
}

term_id schema_compiler::reference(std::string_view to, const std::string& path) {
  static_cast<void>(target(to, path)); // must be there
  const auto pointer = std::string(to.substr(1));
  if (const auto known = references_.find(pointer); known != references_.end()) return terms_.rule(known->second);
  const auto rule = new_rule(term_table::nothing);
  references_.emplace(pointer, terms_.at(rule).a);
  open_.emplace_back(terms_.at(rule).a, pointer);
  return rule;
}

json::object schema_compiler::without_nullable(const object& from, const std::string& path) {
  object out;
  for (const auto& field : from)
    if (field.key() != "nullable") {
      count_work(size_of(field.value()), path);
      out.insert(field);
    }
  return out;
}

/// $ref and allOf, put into one object.
json::object schema_compiler::without_references(const value& from, const std::string& path, std::size_t depth) {
  if (depth > limits_.depth_max) fail(path, "references and allOf nested too deeply, or without end");
  count_schema(path);
  if (!from.is_object()) fail(path, "a schema must be an object here");
  check_keywords(from.get_object(), path);
  if (is_nullable(from.get_object())) {
    auto other = without_references(without_nullable(from.get_object(), path), path, depth + 1);
    const auto types = types_of(other, path);
    return or_null(std::move(other), types);
  }
  object out;
  count_work(from.get_object().size(), path);
  for (const auto& field : from.get_object())
    if (means_something(field, from.get_object())) {
      count_work(size_of(field.value()), path);
      out.insert(field);
    }
  if (const auto* to = out.if_contains("$ref")) {
    if (!to->is_string()) fail(below(path, "$ref"), "it must be a string");
    const std::string reference(text_of(to->get_string()));
    out.erase("$ref");
    const auto other = without_references(target(reference, path), path, depth + 1);
    out = merged(other, out, path, depth + 1);
  }
  if (const auto* list = out.if_contains("allOf")) {
    const auto place = below(path, "allOf");
    if (!list->is_array() || list->get_array().empty()) fail(place, "it must be an array of schemas");
    const auto all = list->get_array();
    out.erase("allOf");
    for (std::size_t i = 0; i < all.size(); ++i)
      out = merged(out, without_references(all[i], below(place, i), depth + 1), below(place, i), depth + 1);
  }
  return out;
}

json::object schema_compiler::merged(const object& a, const object& b, const std::string& path, std::size_t depth) {
  if (depth > limits_.depth_max) fail(path, "references and allOf nested too deeply, or without end");
  count_schema(path);
  // A list of additional properties is about the properties beside it only.
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    const auto *closed = one->if_contains("additionalProperties"), *more = other->if_contains("properties");
    if (closed == nullptr || more == nullptr || (closed->is_bool() && closed->get_bool())) continue;
    const auto* own = one->if_contains("properties");
    if (!more->is_object()) continue;
    for (const auto& field : more->get_object())
      if (own == nullptr || !own->is_object() || !own->get_object().contains(field.key()))
        fail(below(path, "additionalProperties"),
             "it cannot be put together with the properties of another part of allOf, anyOf or $ref");
  }
  // What `items` is about depends on the prefix beside it.
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!one->contains("items") || !other->contains("prefixItems")) continue;
    const auto* own = one->if_contains("prefixItems");
    if (own == nullptr || *own != other->at("prefixItems"))
      fail(below(path, "items"),
           "it cannot be put together with the prefixItems of another part of allOf, anyOf or $ref");
  }
  for (const auto* part : {&a, &b})
    for (const auto& field : *part) count_work(size_of(field.value()), path);
  object out = a;
  for (const auto& field : b) {
    const std::string_view name(field.key().data(), field.key().size());
    auto* mine = out.if_contains(name);
    if (mine == nullptr || *mine == field.value()) {
      out[name] = field.value();
      continue;
    }
    const auto& theirs = field.value();
    if (mine->is_array() && theirs.is_array())
      count_work(mine->get_array().size() * theirs.get_array().size() / compared_per_node, path);
    const auto place = below(path, name);
    const auto both = [&](std::string_view kind) {
      return fail(place, "it is said twice, and cannot be " + std::string(kind));
    };
    if (name == "properties" && mine->is_object() && theirs.is_object()) {
      for (const auto& property : theirs.get_object()) {
        auto& list = out[name].get_object();
        auto* before = list.if_contains(property.key());
        if (before == nullptr || *before == property.value()) {
          list[property.key()] = property.value();
        } else {
          object pair;
          pair["allOf"] = json::array{*before, property.value()};
          *before = std::move(pair);
        }
      }
    } else if (name == "required" && mine->is_array() && theirs.is_array()) {
      for (const auto& one : theirs.get_array())
        if (std::ranges::find(mine->get_array(), one) == mine->get_array().end()) mine->get_array().push_back(one);
    } else if (name == "enum" && mine->is_array() && theirs.is_array()) {
      json::array common;
      for (const auto& one : mine->get_array())
        if (std::ranges::find(theirs.get_array(), one) != theirs.get_array().end()) common.push_back(one);
      if (common.empty()) both("both");
      *mine = std::move(common);
    } else if (name == "type") {
      const auto first = types_of(a, path), second = types_of(b, path);
      json::array common;
      for (const auto& type : first)
        if (second.contains(type) || (type == "integer" && second.contains("number")))
          common.emplace_back(json::string(type));
        else if (type == "number" && second.contains("integer"))
          common.emplace_back("integer");
      if (common.empty()) both("both");
      *mine = std::move(common);
    } else if ((name.starts_with("min") || name == "exclusiveMinimum") && mine->is_number() && theirs.is_number()) {
      if (theirs.to_number<double>() > mine->to_number<double>()) *mine = theirs;
    } else if ((name.starts_with("max") || name == "exclusiveMaximum") && mine->is_number() && theirs.is_number()) {
      if (theirs.to_number<double>() < mine->to_number<double>()) *mine = theirs;
    } else if (name == "items" || (name == "additionalProperties" && mine->is_object() && theirs.is_object())) {
      object pair;
      pair["allOf"] = json::array{*mine, theirs};
      *mine = std::move(pair);
    } else if (name == "additionalProperties" && (mine->is_bool() || theirs.is_bool())) {
      if (mine->is_bool() && mine->get_bool())
        *mine = theirs;
      else if (theirs.is_bool() && !theirs.get_bool())
        *mine = false;
    } else if (name != "discriminator") { // a hint: of two the first will do
      both("put together");
    }
  }
  return out;
}

bool schema_compiler::exclusive(const value& a, const value& b, const std::string& path, std::size_t depth) {
  constexpr std::size_t looks_max = 8;
  count_work(16, path);
  if (depth > looks_max) return false;
  if (a.is_bool() || b.is_bool()) return (a.is_bool() && !a.get_bool()) || (b.is_bool() && !b.get_bool());
  if (!a.is_object() || !b.is_object()) return false;
  const auto &one = a.get_object(), &other = b.get_object();
  for (const auto& pair : {std::pair(&one, &b), std::pair(&other, &a)}) {
    const auto* const part = pair.first;
    const auto* const rest = pair.second;
    if (is_nullable(*part)) {
      object null;
      null["type"] = "null";
      return exclusive(without_nullable(*part, path), *rest, path, depth + 1) &&
             exclusive(null, *rest, path, depth + 1);
    }
    if (const auto* to = part->if_contains("$ref"); to != nullptr && to->is_string())
      if (exclusive(target(text_of(to->get_string()), path), *rest, path, depth + 1)) return true;
    if (const auto* all = part->if_contains("allOf"); all != nullptr && all->is_array())
      for (const auto& each : all->get_array())
        if (exclusive(each, *rest, path, depth + 1)) return true;
    for (const auto* name : {"anyOf", "oneOf"})
      if (const auto* any = part->if_contains(name); any != nullptr && any->is_array())
        if (std::ranges::all_of(any->get_array(),
                                [&](const value& each) { return exclusive(each, *rest, path, depth + 1); }))
          return true;
  }
  const auto values = [](const object& of) {
    if (const auto* constant = of.if_contains("const")) return std::span(constant, 1);
    const auto* list = of.if_contains("enum");
    return list != nullptr && list->is_array() ? std::span(list->get_array()) : std::span<const value>();
  };
  const auto mine = values(one), theirs = values(other);
  count_work(mine.size() + theirs.size() + mine.size() * theirs.size() / compared_per_node, path);
  if (!mine.empty() && !theirs.empty())
    return std::ranges::none_of(mine, [&](const value& each) {
      return std::ranges::any_of(theirs, [&](const value& one_of) { return same_value(each, one_of); });
    });
  const auto kinds = [&](const object& of, std::span<const value> listed) {
    std::set<std::string, std::less<>> out;
    if (of.contains("type")) return types_of(of, path);
    for (const auto& each : listed)
      out.emplace(each.is_string()   ? "string"
                  : each.is_number() ? "number"
                  : each.is_bool()   ? "boolean"
                  : each.is_null()   ? "null"
                  : each.is_array()  ? "array"
                                     : "object");
    return out;
  };
  auto first = kinds(one, mine), second = kinds(other, theirs);
  for (auto* set : {&first, &second})
    if (set->erase("integer") > 0) set->emplace("number");
  if (!first.empty() && !second.empty() &&
      std::ranges::none_of(first, [&](const auto& t) { return second.contains(t); }))
    return true;
  if (first != std::set<std::string, std::less<>>{"object"} || second != first) return false;

  const auto requires_name = [&](const object& of, std::string_view name) {
    const auto* list = of.if_contains("required");
    if (list != nullptr && list->is_array()) count_work(1 + list->get_array().size() / compared_per_node, path);
    return list != nullptr && list->is_array() && std::ranges::any_of(list->get_array(), [&](const value& each) {
             return each.is_string() && text_of(each.get_string()) == name;
           });
  };
  for (const auto& [x, y] : {std::pair(&one, &other), std::pair(&other, &one)}) {
    const auto *own = x->if_contains("properties"), *others = y->if_contains("properties");
    if (own == nullptr || !own->is_object()) continue;
    const auto* closed = y->if_contains("additionalProperties");
    for (const auto& field : own->get_object()) {
      if (!requires_name(*x, {field.key().data(), field.key().size()})) continue;
      const auto* there =
          others != nullptr && others->is_object() ? others->get_object().if_contains(field.key()) : nullptr;
      if (there == nullptr) {
        if (closed != nullptr && closed->is_bool() && !closed->get_bool()) return true;
      } else if (exclusive(field.value(), *there, path, depth + 1)) {
        return true;
      }
    }
  }
  return false;
}

std::vector<const json::value*> schema_compiler::constants_of(const value& of, std::string_view property,
                                                              const std::string& path) {
  constexpr std::size_t looks_max = 16;
  std::vector<const value*> out, open{&of};
  bool is_object = false;
  for (std::size_t looks = 0; !open.empty() && looks < looks_max; ++looks) {
    const auto* at = open.back();
    open.pop_back();
    count_work(16, path);
    if (!at->is_object()) continue;
    const auto& schema = at->get_object();
    if (is_nullable(schema)) return {};
    if (const auto* to = schema.if_contains("$ref"); to != nullptr && to->is_string())
      open.push_back(&target(text_of(to->get_string()), path));
    if (const auto* list = schema.if_contains("allOf"); list != nullptr && list->is_array())
      for (const auto& each : list->get_array()) {
        if (open.size() >= looks_max) break;
        open.push_back(&each);
      }
    if (const auto* type = schema.if_contains("type"); type != nullptr && *type == "object") is_object = true;
    const auto* properties = schema.if_contains("properties");
    const auto* tag =
        properties != nullptr && properties->is_object() ? properties->get_object().if_contains(property) : nullptr;
    if (tag == nullptr || !tag->is_object() || !out.empty() || is_nullable(tag->get_object())) continue;
    if (const auto* constant = tag->get_object().if_contains("const"))
      out.push_back(constant);
    else if (const auto* list = tag->get_object().if_contains("enum"); list != nullptr && list->is_array())
      for (const auto& each : list->get_array()) out.push_back(&each);
  }
  count_work(out.size(), path);
  return is_object ? out : std::vector<const value*>{};
}

bool schema_compiler::told_apart(const object& from, const json::array& all, const std::string& path) {
  const auto* by = from.if_contains("discriminator");
  const auto* name = by != nullptr && by->is_object() ? by->get_object().if_contains("propertyName") : nullptr;
  if (name == nullptr || !name->is_string()) return false;
  std::vector<const value*> known;
  for (const auto& each : all) {
    const auto tags = constants_of(each, text_of(name->get_string()), path);
    if (tags.empty()) return false;
    count_work(tags.size() * (1 + known.size() / compared_per_node), path);
    for (const auto* tag : tags)
      if (std::ranges::any_of(known, [&](const value* other) { return same_value(*tag, *other); })) return false;
    known.insert(known.end(), tags.begin(), tags.end());
  }
  return true;
}

} // namespace godwit::protocols::grammar
