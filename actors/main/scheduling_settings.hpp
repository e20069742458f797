#pragma once

#include "main/settings.hpp"

namespace godwit::main {

inline constexpr double hour_ms = 3'600'000; ///< what no pause is longer than

/// The part of `declare` that is about dispatch, migration policies, execution priorities and autoscaling.
void declare_scheduling(runtime::config::registry& registry, serve_settings& settings);

} // namespace godwit::main
