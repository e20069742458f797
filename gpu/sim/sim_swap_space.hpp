#pragma once

#include "sim/token_source.hpp"

#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/gpu/swap_space.hpp>
#include <godwit/runtime/async/timer_source.hpp>

#include <memory>

namespace godwit::gpu::sim {

/// Copies take their time one after the other, in each direction by itself, and happen at its end. What has not ended
/// when it is destroyed never does.
[[nodiscard]] std::shared_ptr<swap_space> make_sim_swap_space(sim_swap settings, std::shared_ptr<token_source> pool,
                                                              runtime::async::timer_source& timers);

} // namespace godwit::gpu::sim
