#pragma once

#include "model_rules.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::protocols::model {

/// What came of exploring one case.
struct exploration {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint32_t depth = 0;
  std::uint64_t at_rest = 0; ///< states in which nothing goes on by itself
  double seconds = 0;
  bool complete = false;    ///< every reachable state was seen
  std::string broken;       ///< the first promise that was broken; empty: none
  std::vector<action> path; ///< the shortest way there
  model_reach reached;
};

struct exploration_limits {
  std::uint64_t states_max = 20'000'000;
  bool check_rest_reachable = true; ///< from every state, without further faults
};

/// Breadth first, so that a counterexample is as short as any.
[[nodiscard]] exploration explore(const model_case& bounds, exploration_limits limits = {});

} // namespace godwit::protocols::model
