#pragma once

#include "migration/world.hpp"
#include "support/bench.hpp"

namespace godwit::bench {

/// The gap that a migration adds for the client, by length, next to a blocking copy and a recompute of the same
/// request. Lines: migration/stall_steps/LENGTH and others; those of the in_process set-up end in /in_process.
void measure_stalls(session& out, const served_model& model, setup where);

} // namespace godwit::bench
