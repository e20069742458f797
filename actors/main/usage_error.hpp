#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace godwit::main {

/// A wrong command line in one line: what is wrong, and how to mend it.
[[nodiscard]] std::string explain(const CLI::App& app, const CLI::ParseError& error);

} // namespace godwit::main
