#pragma once

#include <godwit/runtime/config/setting.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace godwit::runtime::config {

/// "from 1 to 100000 requests"; empty without bounds.
[[nodiscard]] std::string bounds_text(const setting& s);
/// "a whole number of requests".
[[nodiscard]] std::string expected_text(const setting& s);
/// What a flag's or a variable's text means for this setting. Bounds are not looked at.
[[nodiscard]] std::optional<value> parse_value(const setting& s, std::string_view text);

} // namespace godwit::runtime::config
