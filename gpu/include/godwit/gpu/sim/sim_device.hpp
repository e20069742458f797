#pragma once

#include <godwit/gpu/device.hpp>
#include <godwit/runtime/async/timer_source.hpp>

#include <cstdint>
#include <memory>

namespace godwit::gpu::sim {

/// A device on a timer: a stream's work runs when its cost has passed since the work before it ended. Its memory is
/// counted, not there: regions have no address.
[[nodiscard]] std::unique_ptr<device> make_sim_device(runtime::async::timer_source& timers, std::uint64_t memory_bytes);

} // namespace godwit::gpu::sim
