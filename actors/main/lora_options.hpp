#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/gpu/model/adapter.hpp>

#include <memory>
#include <optional>

/// What the settings say about low-rank adapters.
namespace godwit::main {

void declare_lora(runtime::config::registry& registry, serve_settings& settings);

/// What this machine makes wrong of lora.directory.
[[nodiscard]] std::optional<start_error> check_lora(const serve_settings& settings);

/// Null: this process has no adapters.
[[nodiscard]] std::shared_ptr<const gpu::model::adapter_directory> make_adapters(const serve_settings& settings);

} // namespace godwit::main
