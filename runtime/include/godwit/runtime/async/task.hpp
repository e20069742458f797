#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

/// Lazy coroutines for one context.
///
/// A task runs only while somebody waits for it (`co_await`, `race`, `scope::start`), and always on its owner's
/// context: nothing here takes a lock. Destroying a task destroys its frame and with it everything that it waits for.
///
/// Rules (docs/design/coroutines.md): parameters by value; no capturing lambda coroutines; no aggregate temporaries
/// inside a `co_await` expression (g++ 12 frees them twice).
namespace godwit::runtime::async {

template <class T = void> class task;

namespace detail {

/// Runs when a task's body has ended. Gives the coroutine to go on with. May destroy the frame.
struct promise_base;
using finish_function = std::coroutine_handle<> (*)(promise_base&) noexcept;

struct promise_base {
  finish_function finish = nullptr;
  void* waiter = nullptr; ///< belongs to `finish`
  bool ended = false;     ///< the body has ended, perhaps before its first suspension
  bool starting = false;  ///< the waiter has not suspended yet: it goes on by itself
  std::exception_ptr failure;

  struct final_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> frame) const noexcept {
      promise_base& self = frame.promise();
      self.ended = true;
      if (self.starting) return std::noop_coroutine();
      return self.finish(self);
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] final_awaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { failure = std::current_exception(); }
};

template <class T> struct promise : promise_base {
  std::optional<T> value;
  task<T> get_return_object() noexcept;
  template <class U> void return_value(U&& result) { value.emplace(std::forward<U>(result)); }
  T take() {
    if (failure) std::rethrow_exception(failure);
    return std::move(*value);
  }
};

template <> struct promise<void> : promise_base {
  task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() {
    if (failure) std::rethrow_exception(failure);
  }
};

} // namespace detail

/// A coroutine that gives a T, once, or throws.
template <class T> class [[nodiscard]] task {
public:
  using promise_type = detail::promise<T>;
  using value_type = T;
  using handle_type = std::coroutine_handle<promise_type>;

  task() noexcept = default;
  explicit task(handle_type frame) noexcept : frame_(frame) {}
  task(task&& other) noexcept : frame_(std::exchange(other.frame_, {})) {}
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      reset();
      frame_ = std::exchange(other.frame_, {});
    }
    return *this;
  }
  ~task() { reset(); }

  /// Destroys the frame. Never call it from within the coroutine itself.
  void reset() noexcept {
    if (frame_) std::exchange(frame_, {}).destroy();
  }
  explicit operator bool() const noexcept { return static_cast<bool>(frame_); }
  [[nodiscard]] bool ended() const noexcept { return frame_ && frame_.promise().ended; }

  /// Runs the body until it waits or ends. True: it has ended already, `finish` will not be called.
  bool begin(detail::finish_function finish, void* waiter) {
    auto& promise = frame_.promise();
    promise.finish = finish;
    promise.waiter = waiter;
    promise.starting = true;
    frame_.resume();
    promise.starting = false;
    return promise.ended;
  }
  /// The result of an ended task.
  T take() { return frame_.promise().take(); }

  auto operator co_await() && noexcept { return awaiter{frame_}; }

private:
  struct awaiter {
    handle_type frame;
    explicit awaiter(handle_type f) noexcept : frame(f) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    // Not by symmetric transfer, which unoptimised builds turn into recursion: a loop over tasks that end at once keeps
    // a flat stack.
    bool await_suspend(std::coroutine_handle<> parent) {
      auto& promise = frame.promise();
      promise.finish = [](detail::promise_base& self) noexcept {
        return std::coroutine_handle<>::from_address(self.waiter);
      };
      promise.waiter = parent.address();
      promise.starting = true;
      frame.resume();
      promise.starting = false;
      return !promise.ended;
    }
    T await_resume() { return frame.promise().take(); }
  };
  handle_type frame_;
};

template <class T> task<T> detail::promise<T>::get_return_object() noexcept {
  return task<T>{std::coroutine_handle<promise>::from_promise(*this)};
}
inline task<void> detail::promise<void>::get_return_object() noexcept {
  return task<void>{std::coroutine_handle<promise>::from_promise(*this)};
}

template <class T> inline constexpr bool is_task = false;
template <class T> inline constexpr bool is_task<task<T>> = true;

namespace detail {
template <class A> decltype(auto) awaiter_of(A&& awaitable) {
  if constexpr (requires { std::forward<A>(awaitable).operator co_await(); })
    return std::forward<A>(awaitable).operator co_await();
  else
    return std::forward<A>(awaitable);
}
} // namespace detail

/// What `co_await std::declval<A>()` gives.
template <class A>
using await_result_t = std::remove_cvref_t<decltype(detail::awaiter_of(std::declval<A>()).await_resume())>;

/// Any awaitable as a task.
template <class A> task<await_result_t<A>> as_task(A awaitable) {
  if constexpr (std::is_void_v<await_result_t<A>>)
    co_await std::move(awaitable);
  else
    co_return co_await std::move(awaitable);
}
template <class T> task<T> as_task(task<T> t) { return t; }

} // namespace godwit::runtime::async
