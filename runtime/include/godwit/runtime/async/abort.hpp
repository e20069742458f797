#pragma once

#include <godwit/runtime/async/scope.hpp>

#include <coroutine>
#include <memory>
#include <vector>

namespace godwit::runtime::async {

namespace detail {
struct abort_state {
  scope* owner = nullptr; ///< null once the source is gone
  bool aborted = false;
  std::vector<wait_id> waiting;
};
} // namespace detail

/// The listening end of an abort_source, for coroutines of the same scope.
class abort_token {
public:
  abort_token() = default;
  explicit abort_token(std::shared_ptr<detail::abort_state> state) : state_(std::move(state)) {}
  [[nodiscard]] bool aborted() const noexcept { return state_ && state_->aborted; }

  class wait_operation final : public parked {
  public:
    explicit wait_operation(std::shared_ptr<detail::abort_state> state) : state_(std::move(state)) {}
    wait_operation(wait_operation&& other) noexcept : state_(std::move(other.state_)) {}
    ~wait_operation();
    [[nodiscard]] bool await_ready() const noexcept { return state_ && state_->aborted; }
    void await_suspend(std::coroutine_handle<> frame);
    void await_resume() const noexcept {}
    void wake(void*) override;

  private:
    std::shared_ptr<detail::abort_state> state_;
    scope* scope_ = nullptr; ///< where it waits
    std::coroutine_handle<> frame_;
    wait_id id_;
  };
  /// Resumes once the source is aborted; never, where it goes away before or the token has none. For `race`.
  [[nodiscard]] wait_operation wait() const { return wait_operation{state_}; }

private:
  std::shared_ptr<detail::abort_state> state_;
};

/// Tells coroutines of one scope to stop. Cooperative: they look at the token, or race with `wait()`.
class abort_source {
public:
  explicit abort_source(scope& owner);
  abort_source(const abort_source&) = delete;
  abort_source& operator=(const abort_source&) = delete;
  ~abort_source();
  /// Waiters resume from the scope's `run_ready` (an actor: at the end of the current message), never on the caller's
  /// stack.
  void abort();
  [[nodiscard]] bool aborted() const noexcept { return state_->aborted; }
  [[nodiscard]] abort_token token() const { return abort_token{state_}; }

private:
  std::shared_ptr<detail::abort_state> state_;
};

} // namespace godwit::runtime::async
