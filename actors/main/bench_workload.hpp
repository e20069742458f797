#pragma once

#include "main/bench_options.hpp"

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/workload/request.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::main {

/// The requests that the options ask for, and what they are called in a report.
struct bench_workload {
  std::vector<protocols::workload::workload_request> requests;
  std::string name;
  std::string arrivals;
  bool scheduled = false;  ///< the requests have times of their own: not all at once
  std::size_t skipped = 0; ///< lines of the trace that name no tokens
  std::size_t missing = 0; ///< requests that were asked for, and that the trace does not have
  std::string priority;    ///< the execution priority that requests of priority 1 ask for; empty: none do
};

/// One line for the user: exit code 2 where the options are wrong, 1 where a file cannot be used.
struct bench_error {
  int exit_code = 2;
  std::string message;
};

[[nodiscard]] protocols::expected<bench_workload, bench_error> plan_workload(const bench_options& options);

} // namespace godwit::main
