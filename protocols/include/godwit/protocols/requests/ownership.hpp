#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/tokens.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

namespace godwit::protocols {

/// The home's record of one request: who owns it, and which tokens of the answer are accepted.
///
/// Problem: an instance may die, hang or be cut off and come back; its late tokens must not reach the client beside
/// those of the instance that took over. Contract: every change of owner raises the epoch. Only updates of the current
/// epoch count, and only from the next index on: what is repeated is trimmed, what leaves a gap is dropped. So each
/// index of the answer is accepted once, in order, whoever sent it. Owns no clock: the caller says when an owner is
/// lost.
///
/// A live migration changes the owner by `claim`: the destination, which has all of the request, takes it from the
/// source. A source that does not hear how its commit ended asks to `reclaim` it. Both name the epoch they take it
/// from, so one of them at most is granted; both may be repeated when an answer was lost.
class request_ownership {
public:
  struct limits {
    std::uint32_t attempts_max = 4;        ///< owners in a row that bring no token (a request that kills its instance)
    std::uint32_t attempts_total_max = 64; ///< owners at all
  };
  enum class phase : std::uint8_t {
    unowned, ///< to be dispatched, or between owners
    owned,
    finished ///< for good
  };
  enum class dispatch_error : std::uint8_t {
    owned_already,
    finished,
    attempts_exhausted ///< give up: answer the client with an error
  };
  enum class verdict : std::uint8_t {
    accepted,
    repeated,    ///< nothing in it that was not accepted before
    stale_epoch, ///< from an owner that lost the request, or never had it
    gap,         ///< tokens in between are missing: the owner cannot be trusted any more, treat it as lost
    finished     ///< the answer was complete before
  };
  struct acceptance {
    verdict what = verdict::stale_epoch;
    std::uint32_t first_index = 0;              ///< of `fresh`
    std::vector<sampled_token> fresh;           ///< for the client
    finish_reason finish = finish_reason::none; ///< set when the answer is now complete
  };

  request_ownership() : request_ownership(limits{}) {}
  explicit request_ownership(limits bounds) : limits_(bounds) {}

  /// The instance becomes the owner, under a new epoch.
  [[nodiscard]] expected<epoch, dispatch_error> dispatch(instance_id instance);
  /// Tokens that arrived.
  [[nodiscard]] acceptance accept(epoch from, std::uint32_t first_index, std::vector<sampled_token> tokens,
                                  finish_reason finish);
  [[nodiscard]] acceptance accept(const token_update& update) {
    return accept(update.epoch, update.first_index, update.tokens, update.finish);
  }
  /// The owner of this epoch died, hangs, is cut off or refused. False when it was not the owner (any more).
  bool owner_lost(epoch owner);
  /// The owner of this epoch never took it: the attempt does not count. False when it was not the owner (any more).
  bool refused(epoch owner);
  /// Every epoch of this instance: for a monitor that knows the instance only.
  bool owner_lost(instance_id instance);
  /// The source's instance moved the request to another one, which asks for it. Granted, under a new epoch, when `from`
  /// is the current one; again when it was granted before. A migration does not count as an attempt.
  [[nodiscard]] std::optional<epoch> claim(epoch from, instance_id to, std::uint64_t generation);
  /// The owner of `from` offered the request to another instance and does not know whether that one took it. Granted,
  /// under a new epoch, when `from` is the current one: no claim of `from` will be granted any more.
  [[nodiscard]] std::optional<epoch> reclaim(epoch from);
  /// True where a claim of `from` was granted: the request is with the destination.
  [[nodiscard]] bool claimed_from(epoch from) const noexcept {
    return phase_ == phase::owned && taken_ == taking::claimed && taken_from_ == from;
  }
  /// True where a claim of `from` was granted and taken, whatever became of the request since; of the last few epochs.
  [[nodiscard]] bool moved_from(epoch from) const noexcept;
  /// An instance gave up a request whose claim or reclaim of `from` went unanswered, or that it cannot run after all.
  /// True when that makes the request unowned. Where the claim has not come yet it will not be granted any more: it may
  /// have been overtaken.
  bool disown(epoch from, instance_id instance);
  /// The home ends it: a stop string, a client that went away, an error.
  void finish(finish_reason reason);

  [[nodiscard]] phase where() const noexcept { return phase_; }
  [[nodiscard]] bool finished() const noexcept { return phase_ == phase::finished; }
  [[nodiscard]] epoch current_epoch() const noexcept { return epoch_; }
  /// Empty unless owned.
  [[nodiscard]] std::optional<instance_id> owner() const noexcept;
  [[nodiscard]] std::uint32_t next_index() const noexcept { return static_cast<std::uint32_t>(answer_.size()); }
  /// The ids accepted so far; what the next owner starts from.
  [[nodiscard]] const std::vector<token_id>& answer() const noexcept { return answer_; }
  [[nodiscard]] finish_reason finish_of() const noexcept { return finish_; }
  /// Owners so far; one more than the changes of owner.
  [[nodiscard]] std::uint32_t attempts() const noexcept { return attempts_; }

  /// All but the answer's contents; for exploration and replay.
  [[nodiscard]] auto state() const noexcept {
    return std::tuple(phase_, epoch_, owner_, owner_generation_, taken_, taken_from_, void_from_, claims_, next_index(),
                      finish_, attempts_, attempts_without_token_);
  }

private:
  enum class taking : std::uint8_t { dispatched, claimed, reclaimed };
  void take(taking how, epoch from) noexcept;

  limits limits_;
  phase phase_ = phase::unowned;
  epoch epoch_;
  instance_id owner_;
  std::uint64_t owner_generation_ = 0; ///< of a claimant
  taking taken_ = taking::dispatched;  ///< how the current epoch came to be
  epoch taken_from_;                   ///< by a claim or reclaim: the epoch before
  std::uint8_t claims_ = 0;            ///< bit k: the epoch k + 1 before the current one was ended by a claim
  epoch void_from_;                    ///< the claimant has given up: no claim of this epoch is granted
  std::vector<token_id> answer_;
  finish_reason finish_ = finish_reason::none;
  std::uint32_t attempts_ = 0;
  std::uint32_t attempts_without_token_ = 0;
};

[[nodiscard]] std::string_view to_string(request_ownership::verdict verdict) noexcept;

} // namespace godwit::protocols
