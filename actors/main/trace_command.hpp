#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// `godwit trace`: questions to recordings. Each subcommand has a file of its own and an `add_trace_..._command`.
void add_trace_command(CLI::App& app, command_result& result);

void add_trace_list_command(CLI::App& trace, command_result& result);
void add_trace_show_command(CLI::App& trace, command_result& result);
void add_trace_follow_command(CLI::App& trace, command_result& result);
void add_trace_sequence_command(CLI::App& trace, command_result& result);
void add_trace_stats_command(CLI::App& trace, command_result& result);
void add_trace_slow_command(CLI::App& trace, command_result& result);
void add_trace_diff_command(CLI::App& trace, command_result& result);
void add_trace_export_command(CLI::App& trace, command_result& result);
void add_trace_replay_command(CLI::App& trace, command_result& result);

} // namespace godwit::main
