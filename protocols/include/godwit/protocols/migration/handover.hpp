#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <tuple>

/// How a llumlet learns from a request's home whether it owns the request.
///
/// Both sides of a migration that may have committed ask the home: the destination to claim, the source to reclaim. An
/// answer may be lost with a link; the home may be slow, or gone. Asking again is harmless, but must end. Whoever gives
/// up says so (`disown`), so that a request that was granted to it after all is dispatched anew instead of waiting for
/// ever. These machines live in the llumlet, not in the coordinator: a coordinator's death leaves no request behind.
namespace godwit::protocols {

/// The destination's side.
class ownership_claim {
public:
  enum class action : std::uint8_t {
    ask,       ///< (again)
    adopt,     ///< the request is ours, under `granted()`
    give_back, ///< it is not: free its blocks
    disown     ///< nobody answered: free its blocks and tell the home
  };
  explicit ownership_claim(std::uint32_t asks_max) : left_(asks_max) {}
  [[nodiscard]] action begin() noexcept { return next(); }
  /// The home's answer.
  [[nodiscard]] action answered(bool granted, epoch under) noexcept {
    granted_ = under;
    return granted ? action::adopt : action::give_back;
  }
  [[nodiscard]] action unanswered() noexcept { return next(); }
  /// Its requests are gone with it.
  [[nodiscard]] action home_down() noexcept { return action::give_back; }
  [[nodiscard]] epoch granted() const noexcept { return granted_; }
  [[nodiscard]] auto state() const noexcept { return std::tuple(left_, granted_); }

private:
  [[nodiscard]] action next() noexcept {
    if (left_ == 0) return action::disown;
    --left_;
    return action::ask;
  }
  std::uint32_t left_;
  epoch granted_;
};

/// The source's side.
class ownership_reclaim {
public:
  enum class answer : std::uint8_t {
    granted, ///< it is the source's again, under a new epoch
    moved,   ///< the destination has it
    ended    ///< finished, withdrawn, or dispatched elsewhere
  };
  enum class action : std::uint8_t {
    ask,
    resume, ///< under `granted()`
    release_moved,
    release_ended,
    disown ///< free it and tell the home
  };
  explicit ownership_reclaim(std::uint32_t asks_max) : left_(asks_max) {}
  [[nodiscard]] action begin() noexcept { return next(); }
  [[nodiscard]] action answered(answer how, epoch under) noexcept {
    granted_ = under;
    if (how == answer::granted) return action::resume;
    return how == answer::moved ? action::release_moved : action::release_ended;
  }
  [[nodiscard]] action unanswered() noexcept { return next(); }
  [[nodiscard]] action home_down() noexcept { return action::release_ended; }
  [[nodiscard]] epoch granted() const noexcept { return granted_; }
  [[nodiscard]] auto state() const noexcept { return std::tuple(left_, granted_); }

private:
  [[nodiscard]] action next() noexcept {
    if (left_ == 0) return action::disown;
    --left_;
    return action::ask;
  }
  std::uint32_t left_;
  epoch granted_;
};

} // namespace godwit::protocols
