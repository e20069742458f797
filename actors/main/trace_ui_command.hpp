#pragma once

#include "main/command.hpp"

#include <godwit/transport/http/exchange.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

namespace godwit::main {

/// `godwit trace ui FILE...`: a page that shows recordings, served on this machine or written as one file.
void add_trace_ui_command(CLI::App& trace, command_result& result);

/// Answers for the page (`/`) and its recording (`/recording.json`). Where `loopback_only`, a request that was meant
/// for another host is refused: a web site could give its name this machine's address and read recordings, prompts
/// included, in a visitor's browser. Thread-safe; `json` is shared by all copies.
[[nodiscard]] transport::http::handler trace_ui_handler(std::shared_ptr<const std::string> json, bool loopback_only);

} // namespace godwit::main
