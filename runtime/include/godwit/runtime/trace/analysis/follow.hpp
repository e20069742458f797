#pragma once

#include <godwit/runtime/trace/analysis/index.hpp>

#include <cstddef>
#include <vector>

namespace godwit::runtime::trace::analysis {

struct follow_limits {
  std::size_t causes_max = 32;
  std::size_t depth_max = 8; ///< of effects
  std::size_t events_max = 500;
};

/// One line of a tree.
struct followed {
  position what = nowhere;
  std::size_t depth = 0;     ///< 0: the first one listed
  std::size_t left_out = 0;  ///< effects that the limits leave out
  std::vector<bool> last_of; ///< for every level above it: nothing more comes there
};

/// Why an event happened, and what followed.
struct follow_tree {
  std::vector<position> causes;  ///< from the first one to the event's own cause
  bool causes_cut = false;       ///< there were more than `causes_max`
  bool cause_missing = false;    ///< the first one names a cause that the recording lacks
  std::vector<followed> effects; ///< the event itself, and then all that it caused, each after its cause
};

[[nodiscard]] follow_tree follow(const index& of, position start, follow_limits limits = {});

} // namespace godwit::runtime::trace::analysis
