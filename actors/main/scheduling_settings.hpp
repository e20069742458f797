#pragma once

#include "main/settings.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::main {

inline constexpr double hour_ms = 3'600'000; ///< what no pause is longer than

/// The part of `declare` that is about dispatch, migration policies, execution priorities and autoscaling.
void declare_scheduling(runtime::config::registry& registry, serve_settings& settings);

/// What instances.roles says, for as many instances as it names; empty where it does not hold.
[[nodiscard]] std::vector<protocols::instance_role> roles_of(const serve_settings& settings);
/// What is wrong with it, in one line, with so many instances and what scheduler.migration is by now; empty: nothing.
[[nodiscard]] std::string wrong_with_roles(const serve_settings& settings, std::uint32_t instances);

} // namespace godwit::main
