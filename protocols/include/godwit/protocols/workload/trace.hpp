#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/workload/request.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace godwit::protocols::workload {

enum class trace_format : std::uint8_t {
  azure,    ///< CSV: TIMESTAMP,ContextTokens,GeneratedTokens (Azure LLM inference traces, 2023 and 2024)
  burstgpt, ///< CSV: Timestamp (s), ..., Request tokens, Response tokens, ... (BurstGPT)
  mooncake, ///< JSON lines: timestamp (ms), input_length, output_length, hash_ids (Mooncake)
};

struct trace_limits {
  std::size_t requests_max = 10'000'000; ///< reading ends there
  std::size_t line_bytes_max = 1 << 20;
};

/// A trace, its arrivals ascending from 0 (requests at the same time keep their order).
struct trace {
  trace_format format = trace_format::azure;
  std::vector<workload_request> requests;
  std::size_t skipped = 0; ///< lines without prompt or answer tokens: requests that failed when the trace was taken
};

/// By the first line.
[[nodiscard]] std::optional<trace_format> detect_trace_format(std::string_view text) noexcept;
/// Strict: a line that does not fit fails the whole, with its place. Blank lines are ignored.
[[nodiscard]] expected<trace, workload_error> read_trace(std::string_view text, trace_format format,
                                                         const trace_limits& limits = {});
/// The same, whatever format it is.
[[nodiscard]] expected<trace, workload_error> read_trace(std::string_view text, const trace_limits& limits = {});

} // namespace godwit::protocols::workload
