#pragma once

#include <chrono>
#include <cstdint>

namespace godwit::gpu::sim {

/// What simulated devices have done, added up over all that share it. Steps count when they end.
struct step_books {
  std::uint64_t steps = 0;          ///< a step that is divided into parts counts as often
  std::uint64_t requests = 0;       ///< in these steps: each as often as it was in one
  std::uint64_t tokens = 0;         ///< that were computed, drafts among them
  std::chrono::nanoseconds busy{0}; ///< of all stages and of the draft model, too
};

} // namespace godwit::gpu::sim
