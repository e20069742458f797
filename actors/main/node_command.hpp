#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// `godwit node --join HOST:PORT`: adds this machine's instances to a cluster.
void add_node_command(CLI::App& app, command_result& result);

} // namespace godwit::main
