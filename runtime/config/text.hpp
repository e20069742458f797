#pragma once

#include <godwit/runtime/config/setting.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::runtime::config {

// Values as users write and read them. Units of time: ns us ms s m h, joined as in "1h30m". Units of size: B, kB MB GB
// TB (1000), KiB MiB GiB TiB (1024). Case of the units of size does not matter.

[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);
[[nodiscard]] std::optional<value> parse_integer(std::string_view text);
[[nodiscard]] std::optional<double> parse_real(std::string_view text);
/// Nanoseconds.
[[nodiscard]] std::optional<std::int64_t> parse_duration(std::string_view text);
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// In the largest unit that is exact.
[[nodiscard]] std::string duration_text(std::int64_t nanoseconds);
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// The shortest text that reads back as the same number; "2.0" rather than "2".
[[nodiscard]] std::string real_text(double x);

} // namespace godwit::runtime::config
