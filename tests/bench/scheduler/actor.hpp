#pragma once

#include "support/bench.hpp"

namespace godwit::bench {

/// What a decision costs its asker: a round trip to the real scheduler actor, next to one to an actor that answers at
/// once. Another actor of the same process asks, one question at a time.
void measure_asks(session& out);

} // namespace godwit::bench
