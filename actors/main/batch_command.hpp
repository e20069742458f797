#pragma once

#include "main/bench_options.hpp"
#include "main/command.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace godwit::main {

struct batch_options {
  bench_options server; ///< url, tls, model, api_key and timeout_s
  std::string input, output;
  std::uint32_t concurrency = 64;
  std::uint32_t retries = 8;
  bool resume = false;    ///< what is in `output` was answered
  bool overwrite = false; ///< what is in `output` is worth nothing
  bool json = false;
  progress_style progress = progress_style::none;
};

/// godwit batch INPUT --output OUTPUT: all requests of a file in OpenAI's batch format, to a server.
void add_batch_command(CLI::App& app, command_result& result);

/// Answers go to `options.output`, a summary to `out`, progress and what is wrong to `progress`. `stopped` is asked
/// several times a second; once it is true, the run ends with what it has.
/// 0: every request answered; 1: some were not, or the server or a file cannot be used; 2: the options or the input are
/// wrong, and nothing was sent.
[[nodiscard]] int run_batch_command(const batch_options& options, std::ostream& out, std::ostream& progress,
                                    const std::function<bool()>& stopped = {});

} // namespace godwit::main
