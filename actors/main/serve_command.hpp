#pragma once

#include "main/command.hpp"

#include <CLI/CLI.hpp>

namespace godwit::main {

/// godwit serve [MODEL_DIR] [--config FILE] [--print-config] [--SETTING VALUE ...]
void add_serve_command(CLI::App& app, command_result& result);
/// godwit settings: the reference page of all settings, as Markdown.
void add_settings_command(CLI::App& app, command_result& result);

} // namespace godwit::main
