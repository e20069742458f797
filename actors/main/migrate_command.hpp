#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// `godwit migrate REQUEST_ID --to INSTANCE`: moves a running request by hand, for drills.
void add_migrate_command(CLI::App& app, command_result& result);

} // namespace godwit::main
