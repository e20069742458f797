#pragma once

#include "main/bench_options.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace godwit::main {

/// --url, --tls-ca, --insecure: the server that is asked. `options` outlives the command.
void add_server_flags(CLI::App& command, bench_options& options);

/// The flags that say which requests arrive when, alike for `godwit bench` and `godwit sim`: --lengths, --trace,
/// --arrivals, --rate and --cv. `options` outlives the command. What does not go together is refused by
/// `plan_workload`.
void add_request_flags(CLI::App& command, bench_options& options);

/// --seed: any number of 64 bits. `doc` says what follows from it.
void add_seed_flag(CLI::App& command, std::uint64_t& seed, const std::string& doc);

/// --slo-ttft and --slo-tpot: a number of milliseconds, or one with its unit. Those that are not above 0 are left to
/// `wrong_objective`.
void add_objective_flags(CLI::App& command, bench_options& options);
[[nodiscard]] std::optional<std::string> wrong_objective(const bench_options& options);

} // namespace godwit::main
