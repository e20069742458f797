#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/status.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace godwit::protocols {

/// A request of a marked source, as its llumlet sees it.
struct move_candidate {
  request_id request;
  protocols::epoch epoch;
  request_state state = request_state::running; ///< running or waiting (preempted ones wait)
  bool head_of_line = false;                    ///< the first of those that wait
  bool swapped = false;                         ///< its KV waits in the host's memory, and would be given up
  std::int32_t priority = 0;
  std::uint8_t execution_level = 0;
  std::uint32_t blocks = 0; ///< held, shared ones included; of one that waits: demanded. The destination needs them
  std::uint32_t blocks_most = 0;     ///< that it may come to need, to its end
  std::uint32_t frees = 0;           ///< virtual usage that leaves the source with it, headroom aside
  std::uint32_t headroom = 0;        ///< of its execution level here, for all of the level's requests together
  bool headroom_is_profiled = false; ///< `auto`: elsewhere it is what that instance says
  bool last_of_level = false;        ///< no other request of its level runs here: the headroom goes with it
  /// Since it came here by migration, or since a move of it failed.
  std::int64_t settled_ns = std::numeric_limits<std::int64_t>::max();
  bool failed = false; ///< the latter
};

struct selection_settings {
  /// A running request stays at least so long where a migration brought it, and one whose move failed waits so long for
  /// the next.
  std::int64_t cooldown_ns = 2'000'000'000;
  /// What a move must add to the freeness of the worse one of the two, in blocks by the source's running requests: the
  /// more of them there are, the less can one add.
  double gain_min = 1;
  /// What is handed over leaves its destination so much: the bound below which that would be a source itself.
  double handoff_least = 3;
};

struct move_choice {
  request_id request;
  protocols::epoch epoch;
  double source_before = 0, destination_before = 0; ///< freeness
  double source_after = 0, destination_after = 0;   ///< as expected once it has moved
  std::uint32_t blocks = 0;                         ///< what it will hold at the destination
  std::uint32_t headroom_arrives = 0;               ///< that the destination will have to keep
  std::uint8_t execution_level = 0;
};

/// The request that a marked source should move next (Llumnix section 4.4.3).
/// * The head of line first, where it cannot start here and can at once at the destination: it has nothing to copy, and
/// it is who waits. Then running ones: lower execution priority (a lower level) first, then lower scheduling priority
/// (a higher number), then fewer blocks.
/// * Only one that fits, beside what the destination's own queue demands, and whose move makes the worse of the two
/// better by `gain_min`: moving it back would then be a loss, so that nothing goes to and fro.
/// * A terminating source gets rid of all that fits, whatever that does to the pair, the head of line into the
/// destination's queue if need be, as long as the destination has memory left; only what failed before waits for
/// its turn.
/// * From a prefill instance to one that is none (hands_over), whatever that does to the pair, as long as it leaves the
/// destination a freeness of `handoff_least`: of those that decode the most urgent first, by execution priority, then
/// scheduling priority, then who came first; what failed before comes last, and waits for nothing else.
/// Empty: none.
[[nodiscard]] std::optional<move_choice> choose_move(const std::vector<move_candidate>& candidates,
                                                     const load_report& source, const load_report& destination,
                                                     const selection_settings& settings);

/// A request that can leave a marked source for a destination, and what would come of it.
struct possible_move {
  move_candidate request;
  move_choice outcome;
};

/// What choose_move chooses among for memory's sake, before it looks at what pays, in the order in which it would take
/// them: the destination has room for each beside what its own queue demands, none was moved or failed within
/// `cooldown_ns`, none could grow out of a smaller pool. The head of line only where it cannot start here and can at
/// once there. Empty where the destination takes nothing, and for what is handed over.
[[nodiscard]] std::vector<possible_move> possible_moves(const std::vector<move_candidate>& candidates,
                                                        const load_report& source, const load_report& destination,
                                                        const selection_settings& settings);

/// Makes of the destination's report what it would say once this request has arrived. For the next choice within one
/// round.
void account_arrival(load_report& load, const move_choice& moved) noexcept;

} // namespace godwit::protocols
