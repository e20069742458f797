#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace godwit::main {

/// The words of a command line as CLI11 is to read them: "--control=", which shells make of `--control=$X` with an
/// empty X, in two words, "--control" and "". CLI11 (2.1) would take the next word for its value. Flags, which take no
/// value, and what stands behind "--" stay as they are.
[[nodiscard]] std::vector<std::string> with_empty_values(const CLI::App& app, std::vector<std::string> words);

} // namespace godwit::main
