#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::main {

enum class bench_outcome : std::uint8_t {
  waiting,    ///< never sent
  unfinished, ///< the run was stopped meanwhile
  answered,
  failed,
};

/// What happened to one request. Times are ns since the run's start.
struct request_record {
  std::size_t index = 0;
  std::uint32_t prompt_tokens = 0; ///< as the workload wants it
  std::uint32_t answer_tokens = 0;
  std::uint8_t priority = 0;
  std::int64_t scheduled_ns = 0; ///< when the workload wanted it sent
  std::int64_t started_ns = 0;
  std::int64_t first_text_ns = 0;
  std::int64_t last_text_ns = 0;
  std::int64_t ended_ns = 0;
  std::vector<float> gaps_ms; ///< between one piece of text and the next
  std::uint32_t pieces = 0;   ///< events of the stream that carried text
  std::optional<std::uint32_t> usage_prompt;
  std::optional<std::uint32_t> usage_answer;
  std::string finish_reason;

  bench_outcome outcome = bench_outcome::waiting;
  int status = 0;            ///< of HTTP; 0: none came
  std::string error_kind;    ///< "http_429", "disconnect", "timeout", ...: what failures are counted by
  std::string error_message; ///< one line

  /// The server's count where it gave one; a piece of text counts as a token otherwise.
  [[nodiscard]] std::uint32_t tokens() const noexcept { return usage_answer.value_or(pieces); }
  /// More pieces than tokens: one of the two is wrong.
  [[nodiscard]] bool usage_mismatch() const noexcept { return usage_answer && pieces > *usage_answer; }
};

} // namespace godwit::main
