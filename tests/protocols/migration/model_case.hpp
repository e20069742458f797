#pragma once

#include "model_mutant.hpp"

#include <cstdint>
#include <string>

namespace godwit::protocols::model {

inline constexpr std::uint8_t instances_max = 3;
inline constexpr std::uint8_t requests_max = 2;
inline constexpr std::uint8_t migrations_max = 2;

/// How often each thing may go wrong on one path. All orders and moments within these bounds are explored.
struct fault_budget {
  std::uint8_t crashes = 0;    ///< of a process: an instance with its llumlet and coordinators, or the home
  std::uint8_t restarts = 0;   ///< of a crashed process, with the next generation; a home knows nothing of before
  std::uint8_t heals = 0;      ///< of a cut link, when both sides have noticed
  std::uint8_t thaws = 0;      ///< of a stopped process (SIGCONT)
  std::uint8_t cuts = 0;       ///< of a link between two processes; what had not arrived when a side notices never does
  std::uint8_t freezes = 0;    ///< of a process (SIGSTOP)
  std::uint8_t deaths = 0;     ///< of one coordinator alone
  std::uint8_t fabric = 0;     ///< failures of a transfer
  std::uint8_t cancels = 0;    ///< clients that go away
  std::uint8_t stops = 0;      ///< stop strings that the home finds
  std::uint8_t preempts = 0;   ///< requests that lose their blocks
  std::uint8_t duplicates = 0; ///< asks that arrive once more or instead at any later moment, in no order
  std::uint8_t refusals = 0;   ///< a busy or full destination, beyond what its ledger says
  std::uint8_t orders = 0;     ///< migrations told to stop from outside
  std::uint8_t losses = 0;     ///< single messages between processes that vanish
  std::uint8_t evictions = 0;  ///< of what an instance has of a request's beginning: others who hold it go
};

/// How far the migrations of a case come, over everything that is explored.
struct model_reach {
  std::uint8_t stages = 0; ///< of one migration, at most
  bool extends = false;    ///< a parked request needs more room than its last stage has
  bool tail = false;       ///< a commit brings tokens that the home did not have when the migration began
  /// A fault within its bounds comes while a parked request waits for more room.
  bool fault_extending = false;
  bool known = false; ///< a commit comes with blocks that its destination had already
  friend bool operator==(const model_reach&, const model_reach&) = default;
};

/// One bounded case.
struct model_case {
  std::string name;
  std::uint8_t instances = 2;
  std::uint8_t requests = 1;
  std::uint8_t migrations = 1; ///< started on one path, by any instance that has a request, to any other
  std::uint8_t tokens = 3;     ///< of every answer
  std::uint8_t prompt = 2;     ///< tokens
  /// KV positions of one token of the model. 8: two tokens fill a block, so that blocks are partly filled as well.
  std::uint8_t scale = 8;
  std::uint8_t chunk = 8; ///< tokens of a prompt computed in one step
  std::uint8_t pool = 5;  ///< blocks of an instance
  /// Complete blocks of the first request's beginning that the other instances have, for others who hold them there.
  std::uint8_t known = 0;
  bool starts_waiting = false;   ///< requests begin in the queue; otherwise with their prompt computed and one token
  bool may_finish_early = false; ///< an end-of-sequence token at any step
  bool timers = true;            ///< any armed timer fires at any moment
  /// Answers within a process (llumlet or fabric to coordinator) take their time, as all other messages always do.
  bool local_delays = false;
  bool stale_timers = false; ///< one that was replaced fires as well (its message was on the way already)
  std::uint8_t stages_max = 3;
  std::uint8_t last_blocks_max = 0;
  std::uint8_t asks_max = 2;
  std::uint8_t crashable = 0xFF; ///< bit 0: the home; bit 1 + i: instance i
  fault_budget faults;
  model_reach reaches; ///< what must come of it, so that no case shrinks unnoticed
  mutant bug = mutant::none;
};

} // namespace godwit::protocols::model
