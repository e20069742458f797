#include <godwit/runtime/trace/analysis/labels.hpp>

#include "log/escape.hpp"

#include <cctype>
#include <charconv>
#include <cstdlib>

#include <spdlog/fmt/fmt.h>

namespace godwit::runtime::trace::analysis {

namespace {

bool part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '~'; }

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

bool glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  auto star = std::string_view::npos;
  std::size_t tried = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

} // namespace

std::string label(const recording& of, actor_id who) {
  const auto many = of.processes.size() > 1;
  const auto where = many && who.process < of.processes.size() ? "@" + harmless(of.processes[who.process].name) : "";
  if (!who) return "outside" + where;
  const auto found = of.actors.find(who);
  const auto name = found == of.actors.end() || found->second.empty() ? "actor" : harmless(found->second);
  return fmt::format("{} {}{}", name, who.id, where);
}

std::string short_type(std::string_view type) {
  std::string out;
  std::size_t word = 0; // where the name that is being read begins in `out`
  for (std::size_t i = 0; i < type.size(); ++i) {
    if (type[i] == ':' && i + 1 < type.size() && type[i + 1] == ':') {
      out.resize(word);
      ++i;
      continue;
    }
    out += type[i];
    if (!part_of_name(type[i])) word = out.size();
  }
  return harmless(out);
}

std::string label(const recording& of, event_id id) {
  return of.processes.size() > 1 ? fmt::format("{}.{}", id.process, id.number) : std::to_string(id.number);
}

std::optional<event_id> parse_event_id(const recording& of, std::string_view text) {
  event_id id;
  const auto* end = text.data() + text.size();
  const auto* from = text.data();
  if (const auto dot = text.find('.'); dot != std::string_view::npos) {
    const auto [stop, error] = std::from_chars(from, end, id.process);
    if (error != std::errc{} || stop != from + dot) return std::nullopt;
    from = stop + 1;
  }
  const auto [stop, error] = std::from_chars(from, end, id.number);
  if (error != std::errc{} || stop != end || !id || id.process >= of.processes.size()) return std::nullopt;
  return id;
}

std::string duration_text(std::int64_t ns) {
  const auto x = static_cast<double>(ns);
  const auto size = std::abs(x);
  if (size < 1e3) return fmt::format("{} ns", ns);
  if (size < 1e6) return fmt::format("{:.1f} us", x / 1e3);
  if (size < 1e9) return fmt::format("{:.2f} ms", x / 1e6);
  return fmt::format("{:.3f} s", x / 1e9);
}

std::string harmless(std::string_view text) {
  std::string out;
  log::append_escaped(out, text, log::escape::text);
  return out;
}

std::string shortened(std::string_view text, std::size_t characters_max) {
  if (width_of(text) <= characters_max) return std::string(text);
  std::size_t kept = 0;
  std::size_t bytes = 0;
  while (bytes < text.size() && kept + 1 < characters_max) {
    ++bytes;
    while (bytes < text.size() && continues(text[bytes])) ++bytes;
    ++kept;
  }
  return std::string(text.substr(0, bytes)) + "…";
}

std::size_t width_of(std::string_view utf8) noexcept {
  std::size_t n = 0;
  for (const char c : utf8) n += continues(c) ? 0 : 1;
  return n;
}

std::string_view attribute_of(const event& e, std::string_view name) noexcept {
  for (const auto& a : e.attributes)
    if (a.name == name) return a.value;
  return {};
}

bool matches(std::string_view pattern, std::string_view text) noexcept {
  if (pattern.find_first_of("*?") == std::string_view::npos) return text.find(pattern) != std::string_view::npos;
  return glob(pattern, text);
}

} // namespace godwit::runtime::trace::analysis
