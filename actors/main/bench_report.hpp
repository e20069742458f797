#pragma once

#include "main/bench_options.hpp"
#include "main/bench_record.hpp"
#include "main/latency_stats.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace godwit::main {

/// What a run was, for the head of its report.
struct bench_setup {
  std::string url;
  std::string model;
  bench_endpoint endpoint = bench_endpoint::completions;
  std::string workload; ///< "short", "trace azure.csv"
  std::string arrivals; ///< "Poisson, 4 requests/s"
  /// The workload sets the times: latencies count from the intended arrival, and a late start is part of them.
  /// Otherwise (closed loop) there is no intended arrival and they count from the sending.
  bool open_loop = true;
  std::uint64_t seed = 0;
  std::string priority;      ///< the execution priority that requests of priority 1 asked for; empty: none
  std::size_t shortened = 0; ///< requests cut to the context
  std::size_t skipped = 0;   ///< lines of the trace that name no tokens
  std::size_t missing = 0;   ///< requests that were asked for, and that the trace does not have
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
};

/// A run in figures. Latencies are those of answered requests, in ms.
struct bench_report {
  std::size_t requests = 0;
  std::size_t answered = 0;
  std::size_t failed = 0;
  std::size_t unfinished = 0;      ///< sent or not, when the run was stopped
  double duration_s = 0.0;         ///< until the last request's end, answered or not
  std::uint64_t prompt_tokens = 0; ///< of answered requests
  std::uint64_t answer_tokens = 0;
  double requests_per_s = 0.0;
  double prompt_tokens_per_s = 0.0;
  double answer_tokens_per_s = 0.0;
  std::optional<double> goodput; ///< answered requests/s that met every objective; nothing without objectives

  latency_stats ttft_ms;           ///< until the first text
  latency_stats ttft_from_send_ms; ///< without the late start
  latency_stats tpot_ms;           ///< mean time of a token after the first, of requests of two and more
  latency_stats itl_ms;            ///< each gap between pieces of text
  latency_stats e2e_ms;            ///< until the stream's end
  latency_stats start_lag_ms;      ///< sent after it was due

  /// The requests of one execution priority.
  struct level {
    std::string name; ///< empty: they named none
    std::size_t requests = 0;
    std::size_t answered = 0;
    latency_stats ttft_ms, tpot_ms, itl_ms, e2e_ms;
  };
  std::vector<level> levels; ///< those without a name first; empty unless some were asked for

  struct failures {
    std::size_t count = 0;
    std::string example;
  };
  std::map<std::string, failures> errors; ///< by kind
  std::size_t usage_missing = 0;          ///< answers whose tokens had to be counted by pieces
  std::size_t usage_mismatches = 0;       ///< more pieces than tokens
  std::size_t other_lengths = 0;          ///< answers not as long as asked for
};

[[nodiscard]] bench_report make_report(const bench_setup& setup, std::span<const request_record> records);

[[nodiscard]] std::string to_table(const bench_setup& setup, const bench_report& report);
/// One line, without its end.
[[nodiscard]] std::string to_json(const bench_setup& setup, const bench_report& report);
/// One request, one line, without its end.
[[nodiscard]] std::string to_json(const request_record& record);

} // namespace godwit::main
