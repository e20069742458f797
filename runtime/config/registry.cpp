#include <godwit/runtime/config/command_line.hpp>
#include <godwit/runtime/config/nearest.hpp>
#include <godwit/runtime/config/registry.hpp>

#include "config/describe.hpp"
#include "config/text.hpp"
#include "log/escape.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace godwit::runtime::config {

namespace {

bool legal_name(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.back() == '.' || name.find("..") != std::string_view::npos)
    return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; });
}

std::string variable_of(const std::string& name) {
  auto variable = "GODWIT_" + name;
  for (auto& c : variable) c = c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return variable;
}

std::string number_text(const setting& s, double x) {
  // Also for values that are refused because they are out of all bounds.
  if (s.kind == value_kind::duration && std::abs(x) < 9e12) return duration_text(static_cast<std::int64_t>(x * 1e6));
  if (s.kind == value_kind::bytes && x >= 0 && x < 1.8e19) return bytes_text(static_cast<std::uint64_t>(x));
  if (s.kind == value_kind::integer && std::abs(x) < 9e15) return std::to_string(static_cast<std::int64_t>(x));
  return real_text(x);
}

std::string unit_after(const setting& s) {
  const auto said = s.kind == value_kind::duration || s.kind == value_kind::bytes || s.declared.unit.empty();
  return said ? "" : " " + s.declared.unit;
}

// A duration's bounds are given in milliseconds.
std::optional<double> comparable(const setting& s, const value& v) {
  auto x = std::optional<double>();
  if (const auto* i = std::get_if<std::int64_t>(&v)) x = static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&v)) x = static_cast<double>(*u);
  if (const auto* d = std::get_if<double>(&v)) x = *d;
  if (x && s.kind == value_kind::duration) *x /= 1e6;
  return x;
}

} // namespace

std::string flag_of(const std::string& name) {
  auto flag = "--" + name;
  std::replace_if(
      flag.begin() + 2, flag.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return flag;
}

std::string expected_text(const setting& s) {
  switch (s.kind) {
  case value_kind::boolean:
    return "true or false";
  case value_kind::integer:
    return "a whole number" + (s.declared.unit.empty() ? "" : " of " + s.declared.unit);
  case value_kind::real:
    return "a number" + (s.declared.unit.empty() ? "" : " of " + s.declared.unit);
  case value_kind::text:
    return "a string";
  case value_kind::duration:
    return "a time with its unit, such as \"200ms\", \"2s\" or \"1h30m\"";
  case value_kind::bytes:
    return "a size, such as \"512MiB\", \"2GB\" or a number of bytes";
  case value_kind::list:
    return "a list of strings";
  case value_kind::choice:
    break;
  }
  auto names = std::string("one of ");
  for (const auto& c : s.choices) names += (names.size() > 7 ? ", " : "") + c;
  return names;
}

std::string bounds_text(const setting& s) {
  const auto& [min, max] = std::pair(s.declared.min, s.declared.max);
  if (min && max) return "from " + number_text(s, *min) + " to " + number_text(s, *max) + unit_after(s);
  if (min) return "at least " + number_text(s, *min) + unit_after(s);
  if (max) return "at most " + number_text(s, *max) + unit_after(s);
  return "";
}

std::string placeholder(const setting& s) {
  if (s.kind == value_kind::duration) return "TIME"; // which has its unit with it
  if (s.kind == value_kind::bytes) return "SIZE";
  std::string names;
  for (const auto& one : s.choices) names += (names.empty() ? "" : "|") + one;
  if (!names.empty()) return names;
  return s.declared.unit.empty() ? "VALUE" : s.declared.unit;
}

std::optional<value> parse_value(const setting& s, std::string_view text) {
  switch (s.kind) {
  case value_kind::boolean:
    if (const auto x = parse_bool(text)) return *x;
    return std::nullopt;
  case value_kind::integer:
    return parse_integer(text);
  case value_kind::real:
    if (const auto x = parse_real(text)) return *x;
    return std::nullopt;
  case value_kind::duration:
    if (const auto x = parse_duration(text)) return *x;
    return std::nullopt;
  case value_kind::bytes:
    if (const auto x = parse_bytes(text)) return *x;
    return std::nullopt;
  case value_kind::list: {
    auto items = std::vector<std::string>();
    while (!text.empty()) {
      const auto comma = text.find(',');
      items.emplace_back(text.substr(0, comma));
      text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    }
    return items;
  }
  case value_kind::text:
  case value_kind::choice:
    break;
  }
  return std::string(text);
}

registry& registry::declare(setting s) {
  const auto bug = [&s](const std::string& what) { return std::logic_error("setting " + s.name + ": " + what); };
  if (!legal_name(s.name)) throw bug("names are lower case words joined by dots");
  if (s.declared.doc.empty()) throw bug("it has no doc");
  if (s.kind == value_kind::integer && s.declared.unit == "bytes") s.kind = value_kind::bytes;
  s.flag = s.declared.flag.empty() ? flag_of(s.name) : s.declared.flag;
  if (!s.flag.starts_with("--") || s.flag.size() < 3) throw bug("its flag does not begin with --");
  s.variable = variable_of(s.name);
  for (const auto& other : settings_) {
    if (other.name == s.name || other.flag == s.flag || other.variable == s.variable)
      throw bug("declared twice, or too like " + other.name);
    // [a] b = 1 and a = 2 cannot both stand in one file.
    if (other.name.starts_with(s.name + ".") || s.name.starts_with(other.name + "."))
      throw bug("cannot be both a value and the table of " + other.name);
  }
  settings_.push_back(std::move(s));
  auto& added = settings_.back();
  added.default_text = text(added);
  const auto refuse = [&](std::string what) {
    auto error = std::logic_error("setting " + added.name + ": " + what);
    settings_.pop_back();
    throw error;
  };
  if (auto wrong = assign(added, added.get(), {})) refuse("the default is wrong: " + *wrong);
  return *this;
}

std::optional<std::string> registry::assign(setting& s, const value& v, const origin& by) {
  const bool names_it = by.where == s.flag || by.where == s.variable || by.where == flag_of(s.name);
  const auto where = by.where.empty() ? s.name : names_it ? by.where : by.where + ": " + s.name;
  if (const auto x = comparable(s, v))
    if ((s.declared.min && *x < *s.declared.min) || (s.declared.max && *x > *s.declared.max)) {
      const auto shown = s.kind == value_kind::duration ? duration_text(std::get<std::int64_t>(v)) : number_text(s, *x);
      return where + " is " + shown + unit_after(s) + ", but must be " + bounds_text(s);
    }
  if (s.put(v, true)) return where + ": the value does not fit; expected " + expected_text(s);
  if (by.from < s.set_by.from) return std::nullopt; // a stronger source has spoken
  (void)s.put(v, false);
  s.set_by = by;
  return std::nullopt;
}

std::optional<std::string> registry::set(std::string_view name, std::string_view text, const origin& by) {
  auto* s = find_mutable(name);
  if (s == nullptr) {
    auto names = std::vector<std::string>();
    for (const auto& known : settings_) names.push_back(known.name);
    const auto near = nearest(name, names);
    return (by.where.empty() ? "" : by.where + ": ") + "unknown setting " + std::string(name) +
           (near.empty() ? "" : "; did you mean " + near + "?");
  }
  // As in a file: these words stand in metrics, logs and JSON.
  std::string valid;
  log::append_escaped(valid, text, log::escape::nothing);
  if (valid != text) return (by.where.empty() ? s->name : by.where) + ": \"" + valid + "\" is not UTF-8";
  const auto parsed = parse_value(*s, text);
  // A choice that is none is told with the names, so that it needs no look into the manual.
  if (!parsed || s->put(*parsed, true)) {
    const auto in_bounds = parsed && comparable(*s, *parsed) && s->kind != value_kind::choice;
    if (in_bounds)
      if (auto wrong = assign(*s, *parsed, by)) return wrong;
    return (by.where.empty() ? s->name : by.where) + ": \"" + std::string(text) + "\" is not " + expected_text(*s);
  }
  return assign(*s, *parsed, by);
}

registry& registry::relate(std::function<std::optional<std::string>()> rule) {
  rules_.push_back(std::move(rule));
  return *this;
}

registry& registry::allow_variable(std::string name) {
  allowed_variables_.push_back(std::move(name));
  return *this;
}

problems registry::validate() const {
  auto found = problems();
  for (const auto& rule : rules_)
    if (auto wrong = rule()) {
      // "http.listen: ..." is what a variable or a flag says, under a name of its own.
      const auto* s = find(std::string_view(*wrong).substr(0, wrong->find_first_of(": ")));
      found.push_back(*wrong + (s == nullptr || s->set_by.where.empty() ? "" : " (from " + s->set_by.where + ")"));
    }
  return found;
}

namespace {

/// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
bool of_a_kubernetes_service(std::string_view name, std::string_view value) {
  const auto port = name.find("_PORT");
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos) return true;
  if (port == std::string_view::npos) return false;
  if (port + 5 == name.size())
    return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
  for (const std::string_view kind : {"_TCP", "_UDP", "_SCTP"})
    if (name.find(kind, port) != std::string_view::npos) return true;
  return false;
}

} // namespace

problems registry::load_environment(std::span<const std::pair<std::string, std::string>> variables) {
  auto found = problems();
  constexpr std::string_view prefix = "GODWIT_";
  std::vector<std::string> known;
  const auto knows = [&](const std::string& variable) {
    if (variable.starts_with(prefix)) known.push_back(variable.substr(prefix.size()));
  };
  for (const auto& variable : allowed_variables_) knows(variable);
  for (const auto& s : settings_) knows(s.variable);
  for (const auto& [name, text_of] : variables) {
    if (!name.starts_with(prefix)) continue;
    if (std::find(allowed_variables_.begin(), allowed_variables_.end(), name) != allowed_variables_.end()) continue;
    const auto s =
        std::find_if(settings_.begin(), settings_.end(), [&n = name](const setting& x) { return x.variable == n; });
    // A service called godwit-fabric has the name of fabric.port, and a value that is none.
    if ((s == settings_.end() || name.ends_with("_PORT")) && of_a_kubernetes_service(name, text_of)) continue;
    if (s == settings_.end()) {
      // What all of them have in common makes none of them near.
      const auto near = nearest(std::string_view(name).substr(prefix.size()), known);
      found.push_back("unknown environment variable " + name +
                      (near.empty() ? "" : "; did you mean " + std::string(prefix) + near + "?"));
    } else if (auto wrong = set(s->name, text_of, {source::environment, name})) {
      found.push_back(*wrong);
    }
  }
  return found;
}

const setting* registry::find(std::string_view name) const noexcept {
  for (const auto& s : settings_)
    if (s.name == name) return &s;
  return nullptr;
}

setting* registry::find_mutable(std::string_view name) noexcept { return const_cast<setting*>(find(name)); }

std::string registry::nearest_flag(std::string_view flag) const {
  auto flags = std::vector<std::string>();
  for (const auto& s : settings_) flags.push_back(s.flag);
  return nearest(flag, flags);
}

std::string registry::text(const setting& s) const {
  const auto v = s.get();
  if (const auto* x = std::get_if<bool>(&v)) return *x ? "true" : "false";
  if (const auto* x = std::get_if<double>(&v)) return real_text(*x);
  if (const auto* x = std::get_if<std::string>(&v)) return *x;
  if (const auto* x = std::get_if<std::vector<std::string>>(&v)) {
    auto joined = std::string();
    for (const auto& item : *x) joined += (joined.empty() ? "" : ",") + item;
    return joined;
  }
  const auto* i = std::get_if<std::int64_t>(&v);
  const auto* u = std::get_if<std::uint64_t>(&v);
  if (s.kind == value_kind::duration && i != nullptr) return duration_text(*i);
  if (s.kind == value_kind::bytes) {
    if (u != nullptr) return bytes_text(*u);
    if (i != nullptr && *i >= 0) return bytes_text(static_cast<std::uint64_t>(*i));
  }
  return i != nullptr ? std::to_string(*i) : std::to_string(*u);
}

} // namespace godwit::runtime::config
