#include <godwit/runtime/trace/analysis/labels.hpp>

#include "log/escape.hpp"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>

#include <spdlog/fmt/fmt.h>

namespace godwit::runtime::trace::analysis {

namespace {

// Above them is the number of the thread that recorded it (trace/recorder.hpp).
constexpr unsigned thread_bits = 40;
/// Set in numbers that a thread gave out of turn.
constexpr std::uint64_t beside = std::uint64_t{1} << 39U;

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

std::string short_name(const recording& of, const event& e) {
  const auto& name = of.name_of(e);
  if (!name.empty()) return short_type(name);
  const auto carries = e.kind == event_kind::delivery || e.kind == event_kind::sent;
  return std::string(carries ? to_string(e.message) : to_string(e.kind));
}

std::string label(const recording& of, event_id id) {
  auto out = of.processes.size() > 1 ? fmt::format("{}.", id.process) : std::string();
  const auto thread = id.number >> thread_bits;
  if (thread == 0) return out + std::to_string(id.number);
  return out + fmt::format("{}{}-{}", thread, (id.number & beside) != 0 ? "b" : "", id.number & (beside - 1));
}

std::optional<event_id> parse_event_id(const recording& of, std::string_view text) {
  const auto read = [&text](auto& number) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return false;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    return true;
  };
  const auto skip = [&text](std::string_view what) {
    const auto there = text.starts_with(what);
    if (there) text.remove_prefix(what.size());
    return there;
  };
  event_id id;
  if (text.find('.') != std::string_view::npos && (!read(id.process) || !skip("."))) return std::nullopt;
  if (!read(id.number)) return std::nullopt;
  if (!text.empty()) { // that was the thread
    const auto thread = id.number;
    const auto mark = skip("b") ? beside : 0;
    if (!skip("-") || !read(id.number) || thread >> (64 - thread_bits) != 0) return std::nullopt;
    if (id.number >> thread_bits != 0 || (mark != 0 && id.number >= beside)) return std::nullopt;
    id.number |= thread << thread_bits | mark;
  }
  if (!text.empty() || !id || id.process >= of.processes.size()) return std::nullopt;
  return id;
}

std::string in_words(const recording& of, const event& e, std::string_view name) {
  auto out = label(of, e.id) + " ";
  if (e.kind == event_kind::delivery)
    out += label(of, e.sender) + " -> " + label(of, e.receiver) + " " + std::string(to_string(e.message));
  else
    out += std::string(to_string(e.kind)) + (e.receiver ? " " + label(of, e.receiver) : "");
  if (!name.empty()) out += " " + std::string(name);
  if (!e.text.empty()) out += " " + e.text;
  for (const auto& a : e.attributes) out += " " + a.name + "=" + a.value;
  if (e.kind == event_kind::delivery && e.made > 0) out += ", made " + std::to_string(e.made - 1);
  return out;
}

std::string duration_text(std::int64_t ns) {
  const auto x = static_cast<double>(ns);
  const auto size = std::abs(x);
  if (size < 1e3) return fmt::format("{} ns", ns);
  if (size < 1e6) return fmt::format("{:.1f} us", x / 1e3);
  if (size < 1e9) return fmt::format("{:.2f} ms", x / 1e6);
  return fmt::format("{:.3f} s", x / 1e9);
}

std::int64_t added(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  log::append_escaped(out, text, log::escape::nothing);
  return out;
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
