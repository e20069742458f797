#pragma once

#include <godwit/protocols/migration/reason.hpp>

#include <cstdint>
#include <tuple>
#include <variant>
#include <vector>

namespace godwit::protocols {

/// Bounds of one migration. All have settings (`migration.*`).
struct migration_limits {
  /// Stages at most, the last one included. Two are normal (Llumnix section 4.2); a copy that needs many more is slower
  /// than decoding and would never end.
  std::uint32_t stages_max = 8;
  /// Complete blocks still to be copied at which the last stage begins: what is copied while the request stands still,
  /// with what the steps until then add. For one that decodes that is a block at most, for one that still computes its
  /// prompt a chunk of it (docs/design/migration.md, "Limits, and why").
  std::uint32_t last_blocks_max = 2;
  friend bool operator==(const migration_limits&, const migration_limits&) = default;
};

/// Decides one live migration on the sending instance.
///
/// Problem: a request moves with its KV while it decodes; either side, the link, the home and the request itself may
/// end at any moment, and the request must have one owner at any time. Contract: feed what happens to `step`, perform
/// the effects in order, feed back what comes of them. Owns no clock, link or block. Same state, same event, same
/// effects. Events that do not belong to the present phase (late, repeated) change nothing.
///
/// Phases: prepare (home) -> open (destination) -> reserve, copy, look [per stage] -> reserve, park, copy + commit
/// [last stage] -> settled. The request leaves the batch at `park`; until the commit is sent the source may resume it
/// by itself; from then on only the home decides who has it (`settle`), since the destination may have claimed it.
/// Source: Llumnix (OSDI '24), section 4.2.
class migration_source {
public:
  enum class phase : std::uint8_t {
    preparing,
    opening,
    reserving,
    copying,
    looking,
    parking,
    extending, ///< parked, and the request needs more blocks than were reserved for the last stage
    committing,
    settling,
    ended
  };

  /// What the source's llumlet says of the request.
  struct request_progress {
    std::uint32_t computed = 0;    ///< tokens whose KV is there
    std::uint32_t preemptions = 0; ///< so far; a change means that the KV is not what was copied
    friend bool operator==(const request_progress&, const request_progress&) = default;
  };

  // Events.
  struct prepared { ///< the home's answer
    bool wanted = false;
  };
  struct opened {             ///< the destination has a coordinator for us
    std::uint32_t blocks = 0; ///< the request's first ones, which it has already: complete ones, not to be copied
  };
  struct refused { ///< it has not, or no room for a stage
    migration_reason reason = migration_reason::none;
  };
  struct reserved { ///< room for the stage is there
    std::uint32_t stage = 0;
  };
  struct copied { ///< the stage's blocks have landed at the destination
    std::uint32_t stage = 0;
  };
  struct copy_failed {
    std::uint32_t stage = 0;
  };
  struct looked { ///< how far the request is by now
    request_progress now;
  };
  struct parked { ///< the request is out of the batch
    request_progress now;
  };
  struct gone { ///< the request finished, was cancelled, or was preempted; `left` false: preempted, it is still here
    migration_reason reason = migration_reason::none;
    bool left = true;
  };
  struct commit_answered {
    bool adopted = false;
  };
  enum class settlement : std::uint8_t {
    resumed, ///< ours again, under a new epoch
    moved,   ///< the destination's
    ended,   ///< nobody's: the home does not want it any more
    lost     ///< the home did not answer; the source let go of it
  };
  struct settled {
    settlement how = settlement::lost;
  };
  struct peer_lost {};
  struct stop {
    migration_reason reason = migration_reason::stopped;
  };
  struct timed_out {
    std::uint32_t timer = 0;
  };
  using event = std::variant<prepared, opened, refused, reserved, copied, copy_failed, looked, parked, gone,
                             commit_answered, settled, peer_lost, stop, timed_out>;

  // Effects.
  enum class timer_kind : std::uint8_t {
    answer, ///< for a message and its answer
    stage,  ///< for the bulk copy of a stage
    last    ///< while the request stands still
  };
  struct set_timer { ///< replaces the one before
    std::uint32_t timer = 0;
    timer_kind kind = timer_kind::answer;
  };
  struct ask_home {};
  struct open_destination {
    std::uint32_t blocks = 0; ///< that the request has now: a hint
  };
  struct reserve { ///< ask the destination for room for the request's blocks [first, upto)
    std::uint32_t stage = 0, first = 0, upto = 0;
  };
  struct copy {
    std::uint32_t stage = 0, first = 0, upto = 0;
    bool last = false;
  };
  struct look {};
  struct park {};
  struct commit {
    std::uint32_t blocks = 0; ///< of the request: all that must have landed
  };
  struct abort_destination {
    migration_reason reason = migration_reason::none;
  };
  struct resume {};  ///< unpark it, or take the order to park back; nobody else can have it
  struct release {}; ///< free it: the destination has it
  struct settle {};  ///< ask the home who has it, and act accordingly
  struct finish {
    migration_outcome outcome = migration_outcome::aborted;
    migration_reason reason = migration_reason::none;
  };
  using effect = std::variant<set_timer, ask_home, open_destination, reserve, copy, look, park, commit,
                              abort_destination, resume, release, settle, finish>;
  using effects = std::vector<effect>;

  /// `blocks_most`: that the request can ever have, by its length; no room is asked for beyond, which a pool of that
  /// size has not.
  migration_source(request_progress at_start, migration_limits limits, std::uint32_t blocks_most = ~0U)
      : limits_(limits), blocks_most_(blocks_most), progress_(at_start) {}

  /// The first effects.
  [[nodiscard]] effects begin();
  [[nodiscard]] effects step(const event& what);

  [[nodiscard]] phase where() const noexcept { return phase_; }
  [[nodiscard]] bool done() const noexcept { return phase_ == phase::ended; }
  /// Stages so far, the present one included.
  [[nodiscard]] std::uint32_t stages() const noexcept { return stage_ + (begun_ ? 1U : 0U); }
  /// Blocks known to have landed, or to have been there.
  [[nodiscard]] std::uint32_t blocks_copied() const noexcept { return copied_; }
  /// True from the moment at which the destination may own the request.
  [[nodiscard]] bool commit_sent() const noexcept { return commit_sent_; }

  /// Everything it knows; for exploration and replay.
  [[nodiscard]] auto state() const noexcept {
    return std::tuple(phase_, stage_, begun_, last_, first_, upto_, reserved_, copied_, timer_, parked_, park_ordered_,
                      commit_sent_, opened_, why_, progress_.computed, progress_.preemptions);
  }

private:
  void next_stage(effects& out);
  void last_copy(effects& out);
  void arm(timer_kind kind, effects& out);
  void give_up(migration_reason why, effects& out);
  void ask_who_owns(migration_reason why, effects& out);
  void end(migration_outcome outcome, migration_reason why, effects& out);
  void on(const prepared& e, effects& out);
  void on(const opened& e, effects& out);
  void on(const refused& e, effects& out);
  void on(const reserved& e, effects& out);
  void on(const copied& e, effects& out);
  void on(const copy_failed& e, effects& out);
  void on(const looked& e, effects& out);
  void on(const parked& e, effects& out);
  void on(const gone& e, effects& out);
  void on(const commit_answered& e, effects& out);
  void on(const settled& e, effects& out);
  void on(const peer_lost& e, effects& out);
  void on(const stop& e, effects& out);
  void on(const timed_out& e, effects& out);

  migration_limits limits_;
  std::uint32_t blocks_most_;
  phase phase_ = phase::preparing;
  request_progress progress_;
  std::uint32_t stage_ = 0; ///< the present one
  bool begun_ = false;      ///< a stage has begun
  bool last_ = false;       ///< the present stage is the last one
  std::uint32_t first_ = 0; ///< blocks of the present stage: [first_, upto_)
  std::uint32_t upto_ = 0;
  std::uint32_t reserved_ = 0; ///< blocks that have room at the destination
  std::uint32_t copied_ = 0;
  std::uint32_t timer_ = 0;
  bool opened_ = false;       ///< the destination may hold something for us
  bool park_ordered_ = false; ///< the request is out of the batch, or will be
  bool parked_ = false;
  bool commit_sent_ = false;
  migration_reason why_ = migration_reason::none; ///< of what went wrong after the commit
};

} // namespace godwit::protocols
