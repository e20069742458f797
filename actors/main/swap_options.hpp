#pragma once

#include "main/settings.hpp"
#include "main/start_error.hpp"

#include <godwit/actors/membership.hpp>

#include <optional>

/// What the settings say about the KV of preempted requests.
namespace godwit::main {

void declare_swap(runtime::config::registry& registry, serve_settings& settings);

/// What this machine and this model make wrong of llumlet.swap_bytes.
[[nodiscard]] std::optional<start_error> check_swap(const serve_settings& settings,
                                                    const actors::model_identity& identity);

/// Of the host's memory, for each instance's swap space: none where nothing would ever be swapped.
[[nodiscard]] std::uint64_t swap_bytes_of(const serve_settings& settings);

} // namespace godwit::main
