#pragma once

#include "support/bench.hpp"

namespace godwit::bench {

/// What one scheduler for all requests of a cluster computes between two steps, by instances: the stall of Llumnix's
/// baseline (OSDI '24, figure 16), next to what an instance with a llumlet of its own computes there.
void measure_central(session& out);

} // namespace godwit::bench
