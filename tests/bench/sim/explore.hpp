#pragma once

#include "support/bench.hpp"

namespace godwit::bench {

/// How many seeds of the fault search's smallest scenario one process runs in a minute.
void measure_explore(session& out);

} // namespace godwit::bench
