#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace godwit::protocols::grammar {

/// An anchored pattern for a JSON Schema format of strings; absent: unknown. It may be narrower than the format (an
/// email without quoted parts, an IPv6 address without "::"), never wider.
[[nodiscard]] std::optional<std::string> pattern_of_format(std::string_view format);
/// For messages.
[[nodiscard]] std::string_view formats_known() noexcept;

} // namespace godwit::protocols::grammar
