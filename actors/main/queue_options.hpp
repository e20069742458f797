#pragma once

#include "main/settings.hpp"

/// What the settings say of who starts first.
namespace godwit::main {

void declare_queue(runtime::config::registry& registry, serve_settings& settings);

} // namespace godwit::main
