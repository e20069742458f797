#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// `godwit role INSTANCE ROLE`: what an instance is for, from now on.
void add_role_command(CLI::App& app, command_result& result);

} // namespace godwit::main
