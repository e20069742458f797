#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// `godwit drain INSTANCE [--undo]`: has the requests of an instance move away, and then stops it.
void add_drain_command(CLI::App& app, command_result& result);

} // namespace godwit::main
