#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// `godwit trace level`: what a running cluster records from now on.
void add_trace_level_command(CLI::App& trace, command_result& result);
/// `godwit trace dump`: the last seconds of a running cluster, as a file.
void add_trace_dump_command(CLI::App& trace, command_result& result);

} // namespace godwit::main
