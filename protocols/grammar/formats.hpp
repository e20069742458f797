#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace godwit::protocols::grammar {

/// An anchored pattern for a JSON Schema format of strings; absent: unknown. It may be narrower than the format (an
/// email without quoted parts, an IPv6 address without "::"), never wider.
[[nodiscard]] std::optional<std::string> pattern_of_format(std::string_view format);
/// True where pattern_of_format knows it.
[[nodiscard]] bool is_format(std::string_view format) noexcept;
/// True for the patterns with look-around that zod writes beside a format: whatever has the format, as it is written
/// here, matches them.
[[nodiscard]] bool format_implies(std::string_view format, std::string_view pattern) noexcept;
/// The same texts by a pattern without look-around, for Pydantic's decimals; every other pattern as it is.
[[nodiscard]] std::string_view without_look_around(std::string_view pattern) noexcept;

} // namespace godwit::protocols::grammar
