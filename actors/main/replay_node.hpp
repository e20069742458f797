#pragma once

#include "main/start_error.hpp"

#include <godwit/protocols/expected.hpp>
#include <godwit/runtime/sim/replay.hpp>
#include <godwit/runtime/trace/recording.hpp>

namespace godwit::main {

/// Replays the recording of a process (`godwit serve`, `demo`, `node`): its actors again, with doubles for device,
/// clients, fabric and other processes. Settings and model are those that the recording names.
[[nodiscard]] protocols::expected<runtime::sim::replay_result, start_error>
replay_node(runtime::trace::recording recorded, const runtime::sim::replay_limits& limits);

} // namespace godwit::main
