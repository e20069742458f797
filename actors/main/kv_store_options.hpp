#pragma once

#include "main/settings.hpp"

#include <godwit/actors/kv_store_settings.hpp>

/// What the settings say about the KV store.
namespace godwit::main {

void declare_kv_store(runtime::config::registry& registry, serve_settings& settings);

[[nodiscard]] actors::kv_store_settings make_kv_store(const serve_settings& settings);

} // namespace godwit::main
