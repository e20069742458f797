#pragma once

#include "main/bench_options.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// The flags that say which requests arrive when, alike for `godwit bench` and `godwit sim`: --lengths, --trace,
/// --arrivals, --rate and --cv. `options` outlives the command. What does not go together is refused by
/// `plan_workload`.
void add_request_flags(CLI::App& command, bench_options& options);

} // namespace godwit::main
