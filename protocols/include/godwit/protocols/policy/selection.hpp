#pragma once

#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/status.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace godwit::protocols {

/// A request of a marked source, as its llumlet sees it.
struct move_candidate {
  request_id request;
  protocols::epoch epoch;
  request_state state = request_state::running; ///< running or waiting (preempted ones wait)
  bool head_of_line = false;                    ///< the first of those that wait
  std::int32_t priority = 0;
  std::uint8_t execution_level = 0;
  std::uint32_t blocks = 0;         ///< held; of one that waits: demanded
  std::uint32_t headroom_share = 0; ///< its share of the instance's headroom, which leaves and arrives with it
  std::int64_t settled_ns = 0;      ///< how long it has been here, or since a move of it failed
};

struct selection_settings {
  /// A request stays at least so long where it came to, so that it does not go to and fro.
  std::int64_t cooldown_ns = 2'000'000'000;
  /// What a move must add to the freeness of the worse one of the two, in blocks per running request.
  double gain_min = 0.5;
};

struct move_choice {
  request_id request;
  protocols::epoch epoch;
  double source_before = 0, destination_before = 0; ///< freeness
  double source_after = 0, destination_after = 0;   ///< as expected once it has moved
  bool running = false;
  std::uint32_t blocks = 0;
};

/// The request that a marked source should move next (Llumnix section 4.4.3). The head of line first, where the
/// destination can run it at once: it has nothing to copy, and it is who waits. Then running ones: lower execution
/// priority first, then lower scheduling priority, then fewer blocks. Only one that fits, and whose move makes the
/// worse of the two better by `gain_min`: moving it back would then be a loss, so that nothing goes to and fro. A
/// terminating source gets rid of all, whatever that does to the pair. Empty: none.
[[nodiscard]] std::optional<move_choice> choose_move(const std::vector<move_candidate>& candidates,
                                                     const load_report& source, const load_report& destination,
                                                     const selection_settings& settings);

/// What a report would say once this request has left (from == true) or arrived. For the next choice within one round.
void account_move(load_report& load, const move_choice& moved, bool leaves) noexcept;

} // namespace godwit::protocols
