#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// `godwit frontend --join HOST:PORT`: one more HTTP endpoint of a cluster.
void add_frontend_command(CLI::App& app, command_result& result);

} // namespace godwit::main
