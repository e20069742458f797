#pragma once

#include "main/bench_options.hpp"
#include "main/command.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <ostream>

namespace godwit::main {

/// godwit bench [--url URL] [--lengths NAME | --trace FILE] [--rate R] ...: load against an OpenAI-style server.
void add_bench_command(CLI::App& app, command_result& result);

/// Runs the load and writes the report to `out`: a table, or one JSON object. Progress and what is wrong go to
/// `progress`. `stopped` is asked several times a second; once it is true, the run ends with what it has.
/// 0: every request answered; 1: some were not, or the server or a file cannot be used; 2: the options are wrong.
[[nodiscard]] int run_bench(const bench_options& options, std::ostream& out, std::ostream& progress,
                            const std::function<bool()>& stopped = {});

} // namespace godwit::main
