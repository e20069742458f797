#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/async/scope.hpp>
#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/handle.hpp>
#include <godwit/runtime/message.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

/// The seam between actors and the framework underneath. Everything that knows CAF lies behind the functions declared
/// here, in runtime/actor/; no public header includes it.
namespace godwit::runtime {

class actor_host;

/// Why an actor is gone, or is told to go.
enum class stop_reason : std::uint8_t {
  normal,      ///< its work is done
  shutdown,    ///< told to stop
  killed,      ///< told to stop at once
  failed,      ///< by its own decision, after an error
  unreachable, ///< its node is gone, or it was dead before anybody looked
};
[[nodiscard]] std::string_view to_string(stop_reason reason) noexcept;

namespace detail {

class actor_core;

void* new_letter(const message_type& type);
void free_letter(void* payload, bool constructed) noexcept;

/// A message that has not been sent yet: the payload, in the memory in which it will travel.
class draft {
public:
  draft() noexcept = default;
  template <class T> static draft of(T message) {
    static_assert(alignof(T) <= alignof(std::max_align_t), "over-aligned messages are not supported");
    void* raw = new_letter(message_type_of<T>);
    if constexpr (std::is_nothrow_move_constructible_v<T>) {
      ::new (raw) T(std::move(message));
    } else {
      try {
        ::new (raw) T(std::move(message));
      } catch (...) {
        free_letter(raw, false);
        throw;
      }
    }
    draft out;
    out.payload_ = raw;
    return out;
  }
  draft(draft&& other) noexcept : payload_(std::exchange(other.payload_, nullptr)) {}
  draft& operator=(draft&& other) noexcept {
    std::swap(payload_, other.payload_);
    return *this;
  }
  ~draft() {
    if (payload_) free_letter(payload_, true);
  }
  explicit operator bool() const noexcept { return payload_ != nullptr; }
  [[nodiscard]] void* release() noexcept { return std::exchange(payload_, nullptr); }

private:
  void* payload_ = nullptr;
};

/// An answer as it comes in: a payload of some type, or a failure.
struct answer {
  const message_type* type = nullptr;
  void* payload = nullptr;
  async::error* failure = nullptr;
};

template <class R> async::expected<R> unpack(answer& a) {
  if (a.failure) return std::move(*a.failure);
  using wire = std::conditional_t<std::is_void_v<R>, done, R>;
  if (a.type != &message_type_of<wire>)
    return async::error{async::error_code::unsupported,
                        "expected " + std::string(message_type_of<wire>.name) + ", got " +
                            std::string(a.type ? a.type->name : std::string_view{"nothing"})};
  if constexpr (std::is_void_v<R>)
    return async::expected<void>{};
  else
    return async::expected<R>{std::move(*static_cast<R*>(a.payload))};
}

/// Who waits for the answer to a request. Answers with error_code::down where it is destroyed unanswered (CAF 0.17 has
/// no broken promise). Used on its actor's context only. Empty for messages that nobody waits for.
class reply_to {
public:
  reply_to() noexcept = default;
  reply_to(actor_core* core, actor_ref source, std::uint64_t request) noexcept
      : core_(core), source_(std::move(source)), request_(request) {}
  reply_to(reply_to&& other) noexcept
      : core_(other.core_), source_(std::move(other.source_)), request_(std::exchange(other.request_, 0)) {}
  reply_to& operator=(reply_to&&) = delete;
  ~reply_to() {
    if (request_ != 0) abandon();
  }
  [[nodiscard]] bool wanted() const noexcept { return request_ != 0; }
  template <class T> void answer(T value) {
    if (request_ != 0) deliver(draft::of(std::move(value)));
  }
  void fail(const async::error& why);

private:
  void deliver(draft message);
  void abandon() noexcept;
  actor_core* core_ = nullptr;
  actor_ref source_;
  std::uint64_t request_ = 0;
};

/// Delivers a completion from any thread as an answer to the wait; nothing happens where the actor is gone or waits no
/// longer.
void post(const actor_ref& actor, async::wait_id wait, draft message);
void post_failure(const actor_ref& actor, async::wait_id wait, const async::error& why);

[[nodiscard]] async::error describe(const std::exception_ptr& failure) noexcept;

} // namespace detail

/// An actor's view of what runs it. Valid while the actor lives and on its context only, but for `host()`.
class actor_context {
public:
  explicit actor_context(detail::actor_core* core) noexcept : core_(core) {}

  [[nodiscard]] actor_host& host() const noexcept;
  [[nodiscard]] const runtime::clock& clock() const noexcept;
  [[nodiscard]] actor_ref self() const noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept;
  [[nodiscard]] async::scope& frames() const noexcept;
  [[nodiscard]] detail::actor_core* core() const noexcept { return core_; }

  void send(const actor_ref& to, detail::draft message) const;
  void send_after(std::chrono::nanoseconds delay, const actor_ref& to, detail::draft message) const;
  void stop(const actor_ref& whom, stop_reason reason) const;
  void quit(stop_reason reason) const;
  using down_function = std::function<void(stop_reason)>;
  std::uint64_t monitor(const actor_ref& whom, down_function on_down) const;
  void demonitor(std::uint64_t id) const;
  void link(const actor_ref& whom) const;
  /// Hands an exception that left a handler or a root coroutine to the actor's `on_fault`.
  void fault(const std::exception_ptr& failure, std::string_view where) const noexcept;
  /// One line for the host's report function.
  void report(std::string_view text) const noexcept;

  /// Sends a request whose answer wakes `waiter`. A failure known at once is put into `failure`, and nothing is parked.
  [[nodiscard]] async::wait_id request(async::parked& waiter, const actor_ref& to, std::chrono::nanoseconds timeout,
                                       detail::draft message, async::error& failure) const;
  /// Parks a waiter for something else than a request; it wakes with a timeout failure after `timeout` (0: never).
  [[nodiscard]] async::wait_id park(async::parked& waiter, std::chrono::nanoseconds timeout) const;
  /// Ends a wait and its timeout. Waits that are over are ignored.
  void forget(async::wait_id wait) const noexcept;

private:
  detail::actor_core* core_;
};

} // namespace godwit::runtime
