#pragma once

#include <godwit/protocols/expected.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// One line of a trace, before arrivals are made relative.
namespace godwit::protocols::workload {

struct line_error {
  std::size_t column = 0; ///< from 1
  std::string message;
};

struct trace_line {
  std::int64_t time_ns = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t answer_tokens = 0;
  std::vector<std::uint64_t> prefix_hashes;
};

/// Which of a CSV file's columns hold what.
struct csv_columns {
  std::size_t time = 0;
  std::size_t prompt = 0;
  std::size_t answer = 0;
  std::size_t count = 0;
};

[[nodiscard]] expected<csv_columns, line_error> read_azure_header(std::string_view line);
[[nodiscard]] expected<csv_columns, line_error> read_burstgpt_header(std::string_view line);
[[nodiscard]] expected<trace_line, line_error> read_azure_line(std::string_view line, const csv_columns& columns);
[[nodiscard]] expected<trace_line, line_error> read_burstgpt_line(std::string_view line, const csv_columns& columns);
[[nodiscard]] expected<trace_line, line_error> read_mooncake_line(std::string_view line);

/// Digits, optionally a point and more digits, in units of `unit_ns`, rounded down to ns. Nothing for anything else and
/// for values beyond 10^18 ns.
[[nodiscard]] std::optional<std::int64_t> parse_decimal_ns(std::string_view text, std::int64_t unit_ns);
/// "2023-11-16 18:15:46.6805900", optionally followed by Z or an offset such as +00:00; ns since 1970.
[[nodiscard]] std::optional<std::int64_t> parse_date_time_ns(std::string_view text);
/// Digits only, up to length_tokens_max.
[[nodiscard]] std::optional<std::uint32_t> parse_token_count(std::string_view text);
/// For messages: quoted, shortened, without control characters.
[[nodiscard]] std::string quoted(std::string_view text);

} // namespace godwit::protocols::workload
