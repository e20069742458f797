#include "openai/json_reader.hpp"

#include <godwit/protocols/openai/json_text.hpp>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

namespace godwit::protocols::openai {

namespace json = boost::json;

namespace {

/// Walks a document for what Boost.JSON's tree no longer shows: repeated keys.
struct key_checker {
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  using code = boost::system::error_code;

  // Not hashed: a client may know keys that all have one hash.
  std::vector<std::set<std::string, std::less<>>> open;
  std::string key;
  std::string repeated;

  bool on_document_begin(code&) { return true; }
  bool on_document_end(code&) { return true; }
  bool on_object_begin(code&) {
    open.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, code&) {
    open.pop_back();
    return true;
  }
  bool on_array_begin(code&) { return true; }
  bool on_array_end(std::size_t, code&) { return true; }
  bool on_key_part(json::string_view part, std::size_t, code&) {
    key += part;
    return true;
  }
  bool on_key(json::string_view part, std::size_t, code& ec) {
    key += part;
    if (!open.back().insert(key).second) {
      repeated = key;
      ec = json::error::syntax;
      return false;
    }
    key.clear();
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, code&) { return true; }
  bool on_string(json::string_view, std::size_t, code&) { return true; }
  bool on_number_part(json::string_view, code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, code&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, code&) { return true; }
  bool on_double(double, json::string_view, code&) { return true; }
  bool on_bool(bool, code&) { return true; }
  bool on_null(code&) { return true; }
  bool on_comment_part(json::string_view, code&) { return true; }
  bool on_comment(json::string_view, code&) { return true; }
};

[[noreturn]] void fail_body(std::string message) { fail(invalid_value({}, std::move(message))); }

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.7g", value);
  return buffer;
}

std::string_view kind_of(const json::value& value) noexcept {
  switch (value.kind()) {
  case json::kind::null:
    return "null";
  case json::kind::bool_:
    return "a boolean";
  case json::kind::int64:
  case json::kind::uint64:
  case json::kind::double_:
    return "a number";
  case json::kind::string:
    return "a string";
  case json::kind::array:
    return "an array";
  case json::kind::object:
    return "an object";
  }
  return "something else";
}

/// The code unit of the four digits of an escape; beyond them where they are none.
std::uint32_t code_unit(std::string_view digits) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size() && digits.size() == 4;
  return whole ? value : ~0U;
}

/// Whether one of the strings of a document has an escape of half a surrogate pair, before `end`.
bool has_half_a_pair(std::string_view text, std::size_t end) {
  const auto unit_at = [text](std::size_t at) {
    return text.substr(at, 2) == "\\u" ? code_unit(text.substr(at + 2, 4)) : ~0U;
  };
  const auto is_first = [](std::uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; };
  const auto is_second = [](std::uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; };
  bool in_string = false;
  for (std::size_t at = 0; at < std::min(end, text.size()); ++at) {
    if (text[at] == '"') in_string = !in_string;
    if (!in_string || text[at] != '\\') continue;
    const auto unit = unit_at(at);
    if (is_second(unit)) return true;
    if (is_first(unit)) {
      const auto rest = text.substr(at + 6, 6);
      if (rest.size() < 6 && std::string_view("\\u").starts_with(rest.substr(0, 2))) return false; // cut off there
      if (!is_second(unit_at(at + 6))) return true;
      at += 6;
    }
    ++at; // what is escaped
  }
  return false;
}

} // namespace

void fail(api_error error) { throw parse_failure{std::move(error)}; }

void fail_missing(const std::string& path) { fail(invalid_value(path, "'" + path + "' is required.")); }

void fail_type(std::string path, std::string_view what, const json::value& is) {
  auto message = "'" + path + "' must be " + std::string{what} + ", not " + std::string{kind_of(is)} + ".";
  fail(invalid_value(std::move(path), std::move(message)));
}

std::optional<std::int64_t> integral(const json::value& value) noexcept {
  if (const auto* number = value.if_int64()) return *number;
  const auto* number = value.if_double();
  // Beyond 2^53 a double does not say which integer was meant.
  if (number == nullptr || std::trunc(*number) != *number || std::abs(*number) > 9007199254740992.0)
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string text_of(const json::value& value) {
  const auto& text = value.get_string();
  return {text.data(), text.size()};
}

json::value parse_body(std::string_view body, std::size_t bytes_max, std::size_t depth_max) {
  if (body.size() > bytes_max) fail(body_too_large(bytes_max));
  json::parse_options options;
  options.max_depth = depth_max;
  json::basic_parser<key_checker> checker{options};
  json::error_code ec;
  const auto read = checker.write_some(false, body.data(), body.size(), ec);
  if (!checker.handler().repeated.empty())
    fail_body("The key '" + checker.handler().repeated.substr(0, 64) + "' occurs twice in one object.");
  if (ec == json::error::too_deep)
    fail_body("The body is nested deeper than " + std::to_string(depth_max) + " levels.");
  if (!ec && read < body.size()) ec = json::error::extra_data;
  if (const auto at = ec ? first_not_utf8(body) : body.size(); at < body.size() && at <= read)
    fail_body("The body is not UTF-8 (at byte " + std::to_string(at) + ").");
  if (ec && has_half_a_pair(body, read))
    fail_body("A string has half of a surrogate pair (at byte " + std::to_string(read) +
              "); characters beyond U+FFFF are two \\u escapes, or themselves.");
  if (ec) fail_body("The body is not valid JSON (at byte " + std::to_string(read) + ": " + ec.message() + ").");
  auto value = json::parse({body.data(), body.size()}, ec, {}, options);
  if (ec) fail_body("The body is not valid JSON (" + ec.message() + ").");
  if (!value.is_object()) fail_body("The body must be a JSON object, not " + std::string{kind_of(value)} + ".");
  return value;
}

json_reader::json_reader(const json::object& object, std::string path) : object_(object), path_(std::move(path)) {}

const json::value* json_reader::value(std::string_view name) {
  asked_.emplace(name);
  const auto* found = object_.if_contains({name.data(), name.size()});
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::optional<bool> json_reader::boolean(std::string_view name) {
  const auto* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_bool()) fail_type(path_of(name), "a boolean", *found);
  return found->get_bool();
}

std::optional<std::int64_t> json_reader::integer(std::string_view name, std::int64_t minimum, std::int64_t maximum) {
  const auto* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) fail_type(path_of(name), "an integer", *found);
  const auto number = integral(*found);
  if (!number || *number < minimum || *number > maximum)
    fail(invalid_value(path_of(name), "'" + path_of(name) + "' must be an integer from " + std::to_string(minimum) +
                                          " to " + std::to_string(maximum) + "."));
  return number;
}

std::optional<float> json_reader::number(std::string_view name, float minimum, float maximum, bool above) {
  const auto* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) fail_type(path_of(name), "a number", *found);
  const auto exact = found->to_number<double>();
  if (!(exact >= minimum && exact <= maximum) || (above && exact == minimum)) {
    auto range = (above ? " must be greater than " : " must be at least ") + number_text(minimum);
    if (maximum < std::numeric_limits<float>::max() || exact > maximum) range += " and at most " + number_text(maximum);
    fail(invalid_value(path_of(name), "'" + path_of(name) + "'" + range + ", not " + number_text(exact) + "."));
  }
  const auto number = static_cast<float>(exact);
  // So near to it that a float is no other number.
  return above && number <= minimum ? std::nextafter(minimum, maximum) + std::numeric_limits<float>::min() : number;
}

std::optional<std::string> json_reader::text(std::string_view name) {
  const auto* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) fail_type(path_of(name), "a string", *found);
  return text_of(*found);
}

std::string json_reader::required_text(std::string_view name) {
  auto found = text(name);
  if (!found) fail_missing(path_of(name));
  return *std::move(found);
}

const json::object* json_reader::object(std::string_view name) {
  const auto* found = value(name);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) fail_type(path_of(name), "an object", *found);
  return &found->get_object();
}

const json::array* json_reader::array(std::string_view name) {
  const auto* found = value(name);
  if (found == nullptr) return nullptr;
  if (!found->is_array()) fail_type(path_of(name), "an array", *found);
  return &found->get_array();
}

std::string json_reader::path_of(std::string_view name) const {
  return path_.empty() ? std::string{name} : path_ + "." + std::string{name};
}

std::vector<std::string> json_reader::unasked() const {
  std::vector<std::string> names;
  for (const auto& field : object_) {
    const auto name = std::string_view{field.key().data(), field.key().size()};
    if (!field.value().is_null() && !asked_.contains(name)) names.push_back(path_of(name));
  }
  return names;
}

} // namespace godwit::protocols::openai
