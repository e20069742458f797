#pragma once

#include "main/command.hpp"

#include <godwit/actors/policy_messages.hpp>
#include <godwit/protocols/expected.hpp>

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace godwit::main {

/// godwit policy [show | set NAME=VALUE ... | pause | resume] [--control HOST:PORT] [--json]: the scheduler's policies,
/// switched while it runs.
void add_policy_command(CLI::App& app, command_result& result);

/// The order that "dispatch=NAME", "migration=NAME" and "scaling=MODE" make; or one line that names what is known.
[[nodiscard]] protocols::expected<actors::policy_order, std::string>
parse_policies(const std::vector<std::string>& changes);

} // namespace godwit::main
