#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/actors/kv_store_settings.hpp>
#include <godwit/actors/membership.hpp>

#include <optional>

/// What the settings say about the KV store.
namespace godwit::main {

void declare_kv_store(runtime::config::registry& registry, serve_settings& settings);

/// What this machine and this model make wrong of kv_store.bytes.
[[nodiscard]] std::optional<start_error> check_kv_store(const serve_settings& settings,
                                                        const actors::model_identity& identity);

[[nodiscard]] actors::kv_store_settings make_kv_store(const serve_settings& settings);

} // namespace godwit::main
