#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <string>
#include <vector>

namespace godwit::runtime::trace::analysis {

struct causality {
  std::vector<std::string> faults; ///< what cannot be: cycles, effects before their causes. At most 100
  std::size_t fault_count = 0;
  std::size_t missing = 0; ///< causes that the recording should have and has not
  std::size_t before = 0;  ///< causes that lie before its beginning, in a gap, or in a process that it has nothing of
  [[nodiscard]] bool sound() const noexcept { return fault_count == 0 && missing == 0; }
};

/// Whether causes form a forest without cycles, each of them was there before its effect, and no cause is missing
/// without a reason. `slack_ns`: what clocks of different processes may differ.
[[nodiscard]] causality check_causality(const index& of, std::int64_t slack_ns = 0);

} // namespace godwit::runtime::trace::analysis
