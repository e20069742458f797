#pragma once

#include "main/start_error.hpp"

#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/sim/replay.hpp>
#include <godwit/runtime/trace/recording.hpp>

namespace godwit::main {

/// Runs the command of a simulation's recording again, records that, and compares: the same seed gives the same run.
/// `limits.until` bounds the comparison; `limits.stop_before` is asked of recorded messages.
[[nodiscard]] protocols::expected<runtime::sim::replay_result, start_error>
replay_simulation(runtime::trace::recording recorded, const runtime::sim::replay_limits& limits);

} // namespace godwit::main
