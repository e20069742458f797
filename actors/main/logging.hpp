#pragma once

#include "main/settings.hpp"

#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <string>

namespace godwit::main {

/// The logger that the settings describe, or one line that says what is wrong with them.
[[nodiscard]] protocols::expected<runtime::log::logger, std::string> open_log(const serve_settings& settings);

} // namespace godwit::main
