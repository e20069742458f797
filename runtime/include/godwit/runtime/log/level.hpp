#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace godwit::runtime::log {

enum class level : std::uint8_t { trace, debug, info, warning, error, off };

[[nodiscard]] std::string_view name(level l) noexcept;

struct level_error {
  std::string message; ///< one line
};

/// Which lines are written, for each component: "warning,http=debug,engine=info". An entry without a component is the
/// level of all others, "info" unless given. A component's level also holds for what lies below it: http holds for
/// http.session.
class level_filter {
public:
  level_filter() = default;
  explicit level_filter(level all) : rest_(all) {}
  [[nodiscard]] static std::variant<level_filter, level_error> parse(std::string_view text);
  [[nodiscard]] level of(std::string_view component) const noexcept;
  /// The first of those named that is none of `known`, nor below one; empty: there is none.
  [[nodiscard]] std::string unknown(std::span<const std::string_view> known) const;

private:
  level rest_ = level::info;
  std::vector<std::pair<std::string, level>> components_;
};

} // namespace godwit::runtime::log
