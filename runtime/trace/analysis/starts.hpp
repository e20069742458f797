#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

namespace godwit::runtime::trace::analysis {

/// The cause of an event where starts of actors are not shown: what an actor does as it starts then follows from
/// whatever started it. `nowhere` where that is not known.
[[nodiscard]] inline position cause_past_starts(const index& of, position p) noexcept {
  auto cause = of.cause(p);
  for (int started = 0; cause != nowhere && of[cause].kind == event_kind::spawned; ++started) {
    constexpr int deep = 64; // actors that start actors; causes in a broken file may go in a circle
    cause = started < deep ? of.cause(cause) : nowhere;
  }
  return cause;
}

} // namespace godwit::runtime::trace::analysis
