#pragma once

#include <godwit/protocols/migration/reason.hpp>

#include <cstdint>
#include <tuple>
#include <variant>
#include <vector>

namespace godwit::protocols {

/// Decides one live migration on the receiving instance.
///
/// Problem: blocks are reserved for a request that may never come, and the fabric writes into them on its own time.
/// Contract: feed what happens to `step`, perform the effects in order. Reserved blocks end in exactly one of two ways:
/// `adopt` hands them over to the llumlet together with the request, or `free_blocks` gives them back; either only
/// after `close` was answered by `closed`, when no write can land any more. Everything the source says renews a lease;
/// a source that says nothing for so long is given up. Repeated messages are answered as before. Source: Llumnix (OSDI
/// '24), section 4.2.
class migration_destination {
public:
  enum class phase : std::uint8_t {
    receiving,
    closing,  ///< all has landed and the commit is there: the landing places are being withdrawn
    adopting, ///< the llumlet claims the request at its home; the blocks are the llumlet's now
    aborting, ///< the landing places are being withdrawn, for nothing
    adopted,
    aborted
  };

  // Events.
  struct asked_room { ///< the source wants room for blocks [first, upto)
    std::uint32_t stage = 0, first = 0, upto = 0;
  };
  struct room { ///< the llumlet's answer to `reserve`
    bool granted = false;
  };
  struct landed { ///< so many blocks of the stage are there, in total
    std::uint32_t stage = 0, blocks = 0;
  };
  struct committed { ///< the source has let the request out of its batch; it has so many blocks
    std::uint32_t blocks = 0;
  };
  struct closed {}; ///< no write can land any more
  struct adoption { ///< the llumlet's answer to `adopt`
    bool granted = false;
  };
  struct abort_ordered { ///< by the source, or this side's llumlet
    migration_reason reason = migration_reason::none;
  };
  struct transfer_failed {};
  struct source_lost {};
  struct lease_expired {
    std::uint32_t lease = 0;
  };
  using event = std::variant<asked_room, room, landed, committed, closed, adoption, abort_ordered, transfer_failed,
                             source_lost, lease_expired>;

  // Effects.
  struct set_lease { ///< replaces the one before
    std::uint32_t lease = 0;
  };
  struct reserve { ///< ask the llumlet for so many more blocks
    std::uint32_t blocks = 0;
  };
  struct post { ///< offer the newest blocks, [first, upto) of the request, as the stage's landing place
    std::uint32_t stage = 0, first = 0, upto = 0;
  };
  struct answer_room { ///< to the source
    std::uint32_t stage = 0;
    migration_reason reason = migration_reason::none; ///< none: there is room
  };
  struct close {}; ///< withdraw every landing place
  struct adopt {
    std::uint32_t blocks = 0; ///< the request's; what is reserved beyond is given back
  };
  struct free_blocks {};
  struct answer_commit { ///< to the source
    bool adopted = false;
  };
  struct finish {
    bool adopted = false;
    migration_reason reason = migration_reason::none;
  };
  using effect = std::variant<set_lease, reserve, post, answer_room, close, adopt, free_blocks, answer_commit, finish>;
  using effects = std::vector<effect>;

  struct limits {
    std::uint32_t stages_max = 16;
    std::uint32_t blocks_max = 0; ///< of one request: the pool
    friend bool operator==(const limits&, const limits&) = default;
  };
  /// `known`: blocks that hold the request's beginning already, and are reserved for it; no room is asked for them.
  explicit migration_destination(limits bounds, std::uint32_t known = 0)
      : limits_(bounds), known_(known), reserved_(known) {}

  /// The first effects.
  [[nodiscard]] effects begin();
  [[nodiscard]] effects step(const event& what);

  [[nodiscard]] phase where() const noexcept { return phase_; }
  [[nodiscard]] bool done() const noexcept { return phase_ == phase::adopted || phase_ == phase::aborted; }
  [[nodiscard]] std::uint32_t stages() const noexcept { return static_cast<std::uint32_t>(stages_.size()); }
  /// Of an abort.
  [[nodiscard]] migration_reason why() const noexcept { return why_; }
  [[nodiscard]] std::uint32_t blocks_reserved() const noexcept { return reserved_; }

  struct stage_books {
    std::uint32_t first = 0, upto = 0; ///< blocks of the request
    std::uint32_t landed = 0;
    friend bool operator==(const stage_books&, const stage_books&) = default;
  };
  /// Everything it knows; for exploration and replay.
  [[nodiscard]] auto state() const noexcept {
    return std::tuple(phase_, stages_, pending_room_, closed_, reserved_, lease_, commit_known_, commit_blocks_, why_);
  }

private:
  [[nodiscard]] bool all_landed() const noexcept;
  void renew(effects& out);
  void try_close(effects& out);
  void give_up(migration_reason why, effects& out);
  void end_aborted(effects& out);
  void on(const asked_room& e, effects& out);
  void on(const room& e, effects& out);
  void on(const landed& e, effects& out);
  void on(const committed& e, effects& out);
  void on(const closed& e, effects& out);
  void on(const adoption& e, effects& out);
  void on(const abort_ordered& e, effects& out);
  void on(const transfer_failed& e, effects& out);
  void on(const source_lost& e, effects& out);
  void on(const lease_expired& e, effects& out);

  limits limits_;
  std::uint32_t known_;
  phase phase_ = phase::receiving;
  std::vector<stage_books> stages_; ///< the last one may still wait for room
  bool pending_room_ = false;       ///< a `reserve` is unanswered
  bool closed_ = false;
  std::uint32_t reserved_ = 0; ///< blocks of the request that have room
  std::uint32_t lease_ = 0;
  bool commit_known_ = false;
  std::uint32_t commit_blocks_ = 0;
  migration_reason why_ = migration_reason::none;
};

} // namespace godwit::protocols
