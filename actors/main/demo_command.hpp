#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// godwit demo [--requests N] [--tokens N] [--json]: everything on this machine in about a minute, with what happened
/// shown.
void add_demo_command(CLI::App& app, command_result& result);

} // namespace godwit::main
