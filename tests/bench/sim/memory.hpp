#pragma once

#include "support/bench.hpp"

namespace godwit::bench {

/// What the heap grows by with another instance, another open request, and another one that has ended.
void measure_memory(session& out);

} // namespace godwit::bench
