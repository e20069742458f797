#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// godwit status [--control HOST:PORT] [--requests] [--watch] [--json]
/// godwit status --request REQUEST_ID [--json]
void add_status_command(CLI::App& app, command_result& result);

} // namespace godwit::main
