#pragma once

#include <godwit/runtime/context.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

/// What a coroutine of an actor can wait for. Made by actor_base (`ask`, `sleep_for`, `callback`); awaited at once or
/// moved into `race`. Destroying one that is under way cancels the wait: a later answer finds nobody.
namespace godwit::runtime {

namespace detail {

/// A suspended coroutine of an actor.
class operation : public async::parked {
public:
  explicit operation(actor_context context) noexcept : context_(context) {}
  operation(operation&& other) noexcept : context_(other.context_) {} // before it is awaited, so nothing is parked

protected:
  ~operation() {
    if (wait_) context_.forget(wait_);
  }
  void resume() {
    wait_ = {};
    frame_.resume();
  }
  actor_context context_;
  async::wait_id wait_;
  std::coroutine_handle<> frame_;
};

} // namespace detail

/// A request under way. Gives expected<Reply>.
template <class Reply> class [[nodiscard]] ask_operation final : public detail::operation {
public:
  ask_operation(actor_context context, actor_ref to, std::chrono::nanoseconds timeout, detail::draft message)
      : operation(context), to_(std::move(to)), timeout_(timeout), message_(std::move(message)) {}
  ask_operation(ask_operation&& other) noexcept
      : operation(std::move(other)), to_(std::move(other.to_)), timeout_(other.timeout_),
        message_(std::move(other.message_)) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    async::error failure;
    wait_ = context_.request(*this, to_, timeout_, std::move(message_), failure);
    if (wait_) return true;
    result_.emplace(std::move(failure));
    return false;
  }
  async::expected<Reply> await_resume() { return std::move(*result_); }

private:
  void wake(void* value) override {
    result_.emplace(detail::unpack<Reply>(*static_cast<detail::answer*>(value)));
    resume();
  }
  actor_ref to_;
  std::chrono::nanoseconds timeout_;
  detail::draft message_;
  std::optional<async::expected<Reply>> result_;
};

/// Time passing.
class [[nodiscard]] sleep_operation final : public detail::operation {
public:
  sleep_operation(actor_context context, std::chrono::nanoseconds duration) : operation(context), duration_(duration) {}
  sleep_operation(sleep_operation&& other) noexcept : operation(std::move(other)), duration_(other.duration_) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    wait_ = context_.park(*this, std::max(duration_, std::chrono::nanoseconds{1}));
  }
  void await_resume() const noexcept {}

private:
  void wake(void*) override { resume(); }
  std::chrono::nanoseconds duration_;
};

/// Ends a wait from any thread: posts the value to the waiting actor, which resumes on its own context. Copies share
/// the one call that counts; later calls do nothing. Where the last copy goes uncalled, the wait ends with
/// error_code::aborted, so it cannot be forgotten. Safe when the actor is gone.
template <class T> class completer {
public:
  completer(actor_ref actor, async::wait_id wait) : state_(std::make_shared<state>(std::move(actor), wait)) {}
  void operator()(T value) const {
    if (!state_->spent.exchange(true))
      detail::post(state_->actor, state_->wait, detail::draft::of(local<T>{std::move(value)}));
  }
  void fail(const async::error& why) const {
    if (!state_->spent.exchange(true)) detail::post_failure(state_->actor, state_->wait, why);
  }

private:
  struct state {
    state(actor_ref a, async::wait_id w) : actor(std::move(a)), wait(w) {}
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    ~state() {
      if (!spent.load())
        detail::post_failure(actor, wait, async::error{async::error_code::aborted, "dropped without an answer"});
    }
    actor_ref actor;
    async::wait_id wait;
    std::atomic<bool> spent{false};
  };
  std::shared_ptr<state> state_;
};

/// A completion of something outside the actors' world. Gives expected<T>.
template <class T, class Start> class [[nodiscard]] callback_operation final : public detail::operation {
public:
  callback_operation(actor_context context, std::chrono::nanoseconds timeout, Start start)
      : operation(context), timeout_(timeout), start_(std::move(start)) {}
  callback_operation(callback_operation&& other) noexcept
      : operation(std::move(other)), timeout_(other.timeout_), start_(std::move(other.start_)) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> frame) {
    frame_ = frame;
    wait_ = context_.park(*this, timeout_);
    start_(completer<T>{context_.self(), wait_});
  }
  async::expected<T> await_resume() { return std::move(*result_); }

private:
  void wake(void* value) override {
    auto whole = detail::unpack<local<T>>(*static_cast<detail::answer*>(value));
    if (whole)
      result_.emplace(std::move(whole->value));
    else
      result_.emplace(std::move(whole).error());
    resume();
  }
  std::chrono::nanoseconds timeout_;
  Start start_;
  std::optional<async::expected<T>> result_;
};

} // namespace godwit::runtime
