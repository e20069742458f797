#pragma once

#include "migration/world.hpp"
#include "support/bench.hpp"

namespace godwit::bench {

/// Steps of requests that stay while another one migrates back and forth all the time, over those without migrations.
/// Lines: migration/bystander_step and others; those of the in_process set-up end in /in_process.
void measure_bystanders(session& out, const served_model& model, setup where);

} // namespace godwit::bench
