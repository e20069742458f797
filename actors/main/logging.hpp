#pragma once

#include "main/settings.hpp"

#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <string>

namespace godwit::main {

/// The logger that the settings describe, or one line that says what is wrong with them.
[[nodiscard]] protocols::expected<runtime::log::logger, std::string> open_log(const serve_settings& settings);

/// On SIGHUP, as logrotate sends it after it has renamed the file. Says in the log what came of it.
void reopen_log(const runtime::log::logger& log);

} // namespace godwit::main
