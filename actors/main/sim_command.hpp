#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

void add_sim_command(CLI::App& app, command_result& result);

} // namespace godwit::main
