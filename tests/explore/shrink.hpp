#pragma once

#include "explore/run.hpp"
#include "explore/scenario.hpp"

#include <chrono>
#include <cstdint>
#include <functional>

namespace godwit::explore {

struct shrunk {
  scenario smallest;
  outcome what;
  std::uint32_t runs = 0;
};

/// Leaves out faults, settings and requests, halves first and then one by one, as long as the same promise stays
/// broken; `runs_max` bounds the tries. `attempt` runs a scenario.
[[nodiscard]] shrunk shrink(const scenario& failing, const outcome& how, std::uint32_t runs_max,
                            const std::function<outcome(const scenario&)>& attempt);

} // namespace godwit::explore
