#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/gpu/model/model_directory.hpp>
#include <godwit/protocols/batching/speculation.hpp>

#include <optional>

/// What the settings say about speculative decoding.
namespace godwit::main {

void declare_speculation(runtime::config::registry& registry, serve_settings& settings);

[[nodiscard]] protocols::speculation_settings make_speculation(const serve_settings& settings);

/// Opens the draft model that the settings name, and puts it beside `model`.
[[nodiscard]] std::optional<start_error> open_draft(const serve_settings& settings, gpu::model::model_directory& model);

} // namespace godwit::main
