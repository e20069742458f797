#pragma once

#include "support/bench.hpp"

namespace godwit::bench {

/// Messages that actors of a simulated world consume in a second, next to bare CAF with one worker.
void measure_messages(session& out);
/// What the latter is, once.
[[nodiscard]] double caf_million_per_second();

} // namespace godwit::bench
