// Settings from TOML and to TOML.
#include <godwit/runtime/config/registry.hpp>

#include "config/describe.hpp"
#include "config/text.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

namespace godwit::runtime::config {

namespace {

struct entry {
  std::string name; // "scheduler.queue_max"
  std::uint32_t line = 0;
  const toml::node* node = nullptr;
};

void flatten(const toml::table& table, const std::string& prefix, std::vector<entry>& out) {
  for (const auto& [key, node] : table) {
    const auto name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    if (const auto* inner = node.as_table(); inner && !inner->empty())
      flatten(*inner, name, out);
    else
      out.push_back({name, key.source().begin.line, &node});
  }
}

// A string is taken as the text of a flag would be ("200ms"); anything else has to have the setting's own type.
std::optional<value> to_value(const setting& s, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) {
    const auto textual = s.kind == value_kind::text || s.kind == value_kind::choice || s.kind == value_kind::duration ||
                         s.kind == value_kind::bytes;
    return textual ? parse_value(s, *text) : std::nullopt;
  }
  if (const auto x = node.value_exact<bool>())
    return s.kind == value_kind::boolean ? std::optional<value>(*x) : std::nullopt;
  if (const auto x = node.value_exact<std::int64_t>()) {
    // A bare number for a time would hide its unit; 0 needs none.
    if (s.kind == value_kind::duration) return *x == 0 ? std::optional<value>(std::int64_t{0}) : std::nullopt;
    if (s.kind == value_kind::real) return static_cast<double>(*x);
    if (s.kind == value_kind::integer || s.kind == value_kind::bytes) return *x;
    return std::nullopt;
  }
  if (const auto x = node.value_exact<double>())
    return s.kind == value_kind::real && std::isfinite(*x) ? std::optional<value>(*x) : std::nullopt;
  if (const auto* list = node.as_array(); list != nullptr && s.kind == value_kind::list) {
    auto items = std::vector<std::string>();
    for (const auto& item : *list) {
      const auto text = item.value_exact<std::string>();
      if (!text) return std::nullopt;
      items.push_back(*text);
    }
    return items;
  }
  return std::nullopt;
}

std::string shown(const toml::node& node) {
  auto out = std::ostringstream();
  node.visit([&](const auto& n) {
    if constexpr (toml::is_value<decltype(n)>) out << n;
  });
  return out.str().empty() ? "the value" : out.str();
}

std::string in_quotes(std::string_view text) {
  static constexpr auto hex = "0123456789abcdef";
  auto out = std::string("\"");
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out.append({'\\', c});
    else if (u < ' ' || u == 0x7f)
      out.append("\\u00").append({hex[u >> 4], hex[u & 15]});
    else
      out.push_back(c);
  }
  return out + '"';
}

std::string toml_text(const setting& s, const std::string& text) {
  switch (s.kind) {
  case value_kind::boolean:
  case value_kind::integer:
  case value_kind::real:
    return text;
  case value_kind::list: {
    auto out = std::string("[");
    const auto list = s.get(); // named: a range in a for statement must not hang on a temporary
    for (const auto& item : std::get<std::vector<std::string>>(list))
      out += (out.size() > 1 ? ", " : "") + in_quotes(item);
    return out + "]";
  }
  default:
    return in_quotes(text);
  }
}

void append_comment(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    out.append("# ").append(text.substr(0, end)).push_back('\n');
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
}

std::string origin_text(const origin& o) {
  switch (o.from) {
  case source::built_in:
    return "default";
  case source::file:
    return "set in " + o.where;
  case source::environment:
    return "set by the variable " + o.where;
  case source::flag:
    return "set by the flag " + o.where;
  }
  return "";
}

std::string table_of(const setting& s) {
  const auto dot = s.name.find_last_of('.');
  return dot == std::string::npos ? "" : s.name.substr(0, dot);
}

// Settings without a table first, as TOML needs it; then the tables in the order of their first settings.
std::vector<std::pair<std::string, std::vector<const setting*>>> by_table(const std::vector<setting>& settings) {
  auto tables = std::vector<std::pair<std::string, std::vector<const setting*>>>{{"", {}}};
  auto place = std::map<std::string, std::size_t>{{"", 0}};
  for (const auto& s : settings) {
    const auto [at, added] = place.try_emplace(table_of(s), tables.size());
    if (added) tables.push_back({at->first, {}});
    tables[at->second].second.push_back(&s);
  }
  if (tables.front().second.empty()) tables.erase(tables.begin());
  return tables;
}

std::string facts(const setting& s) {
  auto out = std::string();
  const auto add = [&](const std::string& fact) { out += (out.empty() ? "" : "; ") + fact; };
  if (!s.declared.unit.empty()) add("unit: " + s.declared.unit);
  if (const auto bounds = bounds_text(s); !bounds.empty()) add(bounds);
  auto names = std::string();
  for (const auto& c : s.choices) names += (names.empty() ? "one of " : ", ") + c;
  if (!names.empty()) add(names);
  return out;
}

std::string cell(std::string_view text) {
  auto out = std::string();
  for (const char c : text) {
    if (c == '|') out.push_back('\\');
    out.push_back(c == '\n' ? ' ' : c);
  }
  return out;
}

} // namespace

problems registry::load_file(const std::filesystem::path& path) {
  errno = 0;
  auto in = std::ifstream(path, std::ios::binary);
  auto text_of = std::ostringstream();
  if (!in || !(text_of << in.rdbuf())) {
    const auto why = errno;
    auto ec = std::error_code();
    // An empty file makes << fail too.
    if (std::filesystem::is_regular_file(path, ec) && std::filesystem::file_size(path, ec) == 0) return {};
    return {"cannot read the configuration file " + path.string() +
            (why == 0 ? std::string() : ": " + std::generic_category().message(why))};
  }
  return load_toml(text_of.str(), path.string());
}

problems registry::load_toml(std::string_view text_of, const std::string& name) {
  auto entries = std::vector<entry>();
  auto table = toml::table();
  try {
    table = toml::parse(text_of, std::string_view(name));
  } catch (const toml::parse_error& e) {
    return {name + ":" + std::to_string(e.source().begin.line) + ": not valid TOML: " + std::string(e.description())};
  }
  flatten(table, "", entries);
  auto found = std::vector<std::pair<std::uint32_t, std::string>>();
  for (const auto& e : entries) {
    const auto where = name + ":" + std::to_string(e.line);
    const auto complain = [&](std::string what) { found.emplace_back(e.line, std::move(what)); };
    auto* s = find_mutable(e.name);
    const auto within = [&e](const setting& one) { return one.name.starts_with(e.name + "."); };
    if (e.node->is_table() && std::ranges::any_of(settings_, within)) {
      // an empty table of ours
    } else if (s == nullptr) {
      complain(set(e.name, "", {source::file, where}).value_or("")); // names the nearest
    } else if (const auto v = to_value(*s, *e.node); !v) {
      complain(where + ": " + e.name + " is " + shown(*e.node) + ", which is not " + expected_text(*s));
    } else if (auto wrong = assign(*s, *v, {source::file, where})) {
      complain(*wrong);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  auto out = problems();
  for (auto& [line, what] : found) out.push_back(std::move(what));
  return out;
}

std::string registry::print_config() const {
  auto out = std::string();
  for (const auto& [table, members] : by_table(settings_)) {
    if (!table.empty()) out.append(out.empty() ? "" : "\n").append("[" + table + "]\n");
    for (const auto* s : members) {
      append_comment(out, s->declared.doc);
      if (const auto known = facts(*s); !known.empty()) append_comment(out, known);
      append_comment(out, origin_text(s->set_by) +
                              (s->set_by.from == source::built_in ? "" : "; default: " + s->default_text));
      const auto key = table.empty() ? s->name : s->name.substr(table.size() + 1);
      out.append(key).append(" = ").append(toml_text(*s, text(*s))).push_back('\n');
    }
  }
  return out;
}

std::string registry::reference_markdown() const {
  auto out = std::string();
  for (const auto& [table, members] : by_table(settings_)) {
    out.append(out.empty() ? "" : "\n").append(table.empty() ? "## General\n" : "## [" + table + "]\n");
    out.append("\n| Key | Flag | Variable | Default | Values | What it does |\n|---|---|---|---|---|---|\n");
    for (const auto* s : members) {
      const auto key = table.empty() ? s->name : s->name.substr(table.size() + 1);
      out.append("| `" + key + "` | `" + s->flag + "` | `" + s->variable + "` | ");
      out.append(s->default_text.empty() ? "" : "`" + cell(s->default_text) + "`");
      out.append(" | " + cell(facts(*s)) + " | " + cell(s->declared.doc) + " |\n");
    }
  }
  return out;
}

} // namespace godwit::runtime::config
