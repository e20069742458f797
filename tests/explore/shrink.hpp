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

/// Whether `less` is the failure that `whole` is: the same promise, and its details say nothing that those of `whole`
/// do not say, whatever the numbers.
[[nodiscard]] bool same_failure(const outcome& less, const outcome& whole);

/// Leaves out faults, settings and requests, halves first and then one by one, as long as the failure stays the same;
/// `runs_max` bounds the tries. `attempt` runs a scenario.
[[nodiscard]] shrunk shrink(const scenario& failing, const outcome& how, std::uint32_t runs_max,
                            const std::function<outcome(const scenario&)>& attempt);

} // namespace godwit::explore
