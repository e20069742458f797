#pragma once

#include "support/bench.hpp"

namespace godwit::bench {

/// What `godwit sim` costs: 16 instances with 10,000 requests, and growing clusters with growing loads.
void measure_clusters(session& out);

} // namespace godwit::bench
