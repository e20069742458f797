#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/gpu/adapters.hpp>
#include <godwit/gpu/model/adapter.hpp>
#include <godwit/runtime/metrics/registry.hpp>

#include <memory>
#include <optional>
#include <vector>

/// What the settings say about low-rank adapters.
namespace godwit::main {

void declare_lora(runtime::config::registry& registry, serve_settings& settings);

/// What this machine makes wrong of lora.directory.
[[nodiscard]] std::optional<start_error> check_lora(const serve_settings& settings);

/// Null: this process has no adapters.
[[nodiscard]] std::shared_ptr<const gpu::model::adapter_directory> make_adapters(const serve_settings& settings);

/// What the adapters of this process are; `store` may be null: all is 0.
[[nodiscard]] std::vector<runtime::metrics::registry::registration>
add_adapter_metrics(runtime::metrics::registry& metrics, std::shared_ptr<const gpu::adapter_store> store);

} // namespace godwit::main
