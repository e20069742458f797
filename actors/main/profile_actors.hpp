#pragma once

#include <godwit/gpu/executor.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

namespace godwit::main {

/// What serving adds to the steps of a device.
struct actor_costs {
  double overhead_us = 0;   ///< of every step
  double per_decode_us = 0; ///< of every sequence that decodes in it
  std::size_t steps = 0;    ///< that were looked at
};

/// Serves made-up requests on the device with the actors of `godwit serve`, without HTTP, and takes the time from the
/// end of each step to the begin of the next one: the way through the mailboxes of instance and llumlet, what the
/// planner does with the tokens and for the next step, and waking threads. Nothing of it overlaps with a step. Medians
/// of batches of one and of several requests; a line between them gives the two costs.
///
/// Takes about `time_max`, but long enough for a few dozen steps. Throws std::runtime_error where serving fails.
[[nodiscard]] actor_costs measure_actors(std::shared_ptr<gpu::executor> on, std::chrono::nanoseconds time_max);

} // namespace godwit::main
