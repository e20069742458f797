#include <godwit/runtime/log/level.hpp>

#include <algorithm>
#include <array>
#include <optional>

namespace godwit::runtime::log {

namespace {

bool is_within(std::string_view component, std::string_view whole) noexcept {
  return component.starts_with(whole) && (component.size() == whole.size() || component[whole.size()] == '.');
}

constexpr std::array<std::string_view, 6> names{"trace", "debug", "info", "warning", "error", "off"};

std::optional<level> from_name(std::string_view text) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return static_cast<level>(i);
  return std::nullopt;
}

level_error wrong(std::string_view entry, const std::string& what) {
  return {"log level \"" + std::string(entry) + "\": " + what +
          "; expected LEVEL or COMPONENT=LEVEL, LEVEL one of trace, debug, info, warning, error, off"};
}

bool legal_component(std::string_view name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == std::string_view::npos;
}

} // namespace

std::string_view name(level l) noexcept { return names[static_cast<std::size_t>(l)]; }

std::variant<level_filter, level_error> level_filter::parse(std::string_view text) {
  auto out = level_filter();
  while (!text.empty()) {
    const auto comma = text.find(',');
    auto entry = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    const auto equals = entry.find('=');
    const auto component = equals == std::string_view::npos ? std::string_view{} : entry.substr(0, equals);
    const auto parsed = from_name(equals == std::string_view::npos ? entry : entry.substr(equals + 1));
    if (!parsed) return wrong(entry, "no such level");
    if (equals == std::string_view::npos)
      out.rest_ = *parsed;
    else if (!legal_component(component))
      return wrong(entry, "not a component's name");
    else
      out.components_.emplace_back(component, *parsed);
  }
  return out;
}

level level_filter::of(std::string_view component) const noexcept {
  auto best = rest_;
  auto longest = std::size_t{0};
  for (const auto& [prefix, l] : components_) {
    // Of two entries for the same component the later one holds.
    if (!is_within(component, prefix) || prefix.size() < longest) continue;
    best = l;
    longest = prefix.size();
  }
  return best;
}

std::string level_filter::unknown(std::span<const std::string_view> known) const {
  for (const auto& [name, l] : components_)
    if (std::ranges::none_of(known, [&n = name](auto one) { return is_within(n, one); })) return name;
  return {};
}

} // namespace godwit::runtime::log
