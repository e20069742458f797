#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Workloads: which requests arrive when, and how long they are. Drawn from named distributions or read from traces.
///
/// The load generator and the simulator use the same ones, so a figure measured here can be repeated there. All is a
/// pure function of its arguments and a seed.
namespace godwit::protocols::workload {

struct workload_request {
  std::int64_t arrival_ns = 0; ///< since the workload's start
  std::uint32_t prompt_tokens = 1;
  std::uint32_t answer_tokens = 1;
  std::uint8_t priority = 0; ///< 0: normal; higher goes first
  /// One hash for each `tokens_per_prefix_hash` tokens of the prompt, the last for what is left. Two requests whose
  /// first n hashes are equal share that much of their prompts. Empty: shares nothing with anybody.
  std::vector<std::uint64_t> prefix_hashes;

  std::int64_t deadline_ns = 0; ///< from its arrival its client wants the whole answer within; 0: it does not say

  friend bool operator==(const workload_request&, const workload_request&) = default;
};

/// Mooncake's traces hash prompts in blocks of this many tokens.
inline constexpr std::uint32_t tokens_per_prefix_hash = 512;

/// What is wrong with a trace or a name. Line and column count from 1; 0: not about a place in a text.
struct workload_error {
  std::size_t line = 0;
  std::size_t column = 0;
  std::string message;

  /// "trace.csv:3:12: message", or the message alone.
  [[nodiscard]] std::string text(const std::string& name) const;
  friend bool operator==(const workload_error&, const workload_error&) = default;
};

} // namespace godwit::protocols::workload
