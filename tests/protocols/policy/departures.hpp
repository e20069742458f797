#pragma once

#include <godwit/protocols/policy/selection.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

/// What a move leaves behind at its source, for the tests of the policies. An instance says so itself with its next
/// report.
namespace godwit::protocols {

inline const move_candidate& candidate_of(const move_choice& choice, const std::vector<move_candidate>& candidates) {
  return *std::ranges::find(candidates, choice.request, &move_candidate::request);
}

/// Makes of the source's report what it says once this request has left.
inline void account_departure(load_report& load, const move_candidate& moved) {
  const auto take = [](std::uint32_t& from, std::uint32_t what) { from -= std::min(from, what); };
  const bool runs = moved.state == request_state::running;
  take(runs ? load.blocks_used : load.queued_blocks, moved.frees);
  take(runs ? load.running : load.waiting, 1);
  if (!moved.last_of_level) return;
  take(load.headroom_blocks, moved.headroom);
  load.execution_levels &= ~(1U << moved.execution_level);
}

} // namespace godwit::protocols
