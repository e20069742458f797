#pragma once

#include "main/settings.hpp"

#include <godwit/protocols/batching/speculation.hpp>

/// What the settings say about speculative decoding.
namespace godwit::main {

void declare_speculation(runtime::config::registry& registry, serve_settings& settings);

[[nodiscard]] protocols::speculation_settings make_speculation(const serve_settings& settings);

} // namespace godwit::main
