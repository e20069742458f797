#pragma once

#include "main/settings.hpp"

#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <string>
#include <vector>

namespace godwit::main {

/// What writes lines, by the names that they bear: "http, node, ...". A test keeps it complete.
[[nodiscard]] std::string log_components();
/// What is wrong with the components that it names, in one line; empty: nothing.
[[nodiscard]] std::string wrong_component(const runtime::log::level_filter& filter);

/// The logger that the settings describe, or one line that says what is wrong with them.
[[nodiscard]] protocols::expected<runtime::log::logger, std::string> open_log(const serve_settings& settings);

/// The stages of a process's life (it listens, is ready, drains, has ended), for whoever waits for them: lines of
/// standard output, and of a log that has a file of its own. Where the log is JSON on standard error they are lines of
/// it and nothing else, so that one stream of both stays JSON; where it is text there, lines of standard output alone.
class life_lines {
public:
  life_lines(const serve_settings& settings, const runtime::log::logger& log);
  void tell(const std::string& line) const;
  /// `about`: what the log says besides.
  void tell(const std::string& line, const std::vector<runtime::log::field>& about) const;
  /// Something went wrong: for standard error.
  void warn(const std::string& line) const;

private:
  bool plain_;
  bool logged_;
  runtime::log::logger log_;
};

/// On SIGHUP, as logrotate sends it after it has renamed the file. Says in the log what came of it.
void reopen_log(const runtime::log::logger& log);

} // namespace godwit::main
