#pragma once

#include <godwit/runtime/async/task.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

namespace godwit::runtime::async {

/// Names one wait. Stale ids, of waits that are over, are recognised by their generation.
struct wait_id {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0; ///< 0: no wait
  wait_id() = default;
  wait_id(std::uint32_t s, std::uint32_t g) : slot(s), generation(g) {}
  explicit operator bool() const noexcept { return generation != 0; }
  friend bool operator==(const wait_id&, const wait_id&) = default;
};

/// Something suspended in a scope. Lives in the coroutine frame, as the awaiter.
class parked {
public:
  /// The wait is over. `value` belongs to whoever calls: null, or what the waiter knows to expect. Resumes a coroutine.
  virtual void wake(void* value) = 0;

protected:
  ~parked() = default;
};

/// How a root task ended.
template <class T> struct outcome {
  std::exception_ptr failure; ///< null: there is a value
  std::optional<T> value;
};
template <> struct outcome<void> { std::exception_ptr failure; };

/// Owns the coroutines of one actor: root frames and the table of what they wait for.
///
/// Everything is touched on the owner's context only, so there are no locks. `destroy_all` (or the destructor) destroys
/// every frame, newest first; frames of nested tasks are locals of their parents and go with them. A wake-up that comes
/// later finds its generation outdated and does nothing.
class scope {
public:
  scope() = default;
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;
  ~scope() { destroy_all(); }

  /// Runs `body` as a root until its first wait. `done` gets the outcome<T>; it is destroyed without having been called
  /// where the frame is destroyed first. After `destroy_all` nothing starts any more: body and done are dropped.
  template <class T, class Done> void start(task<T> body, Done done) {
    if (closed_ || !body) return;
    auto* started = new root_of<T, Done>(*this, std::move(body), std::move(done)); // deletes itself at its end
    started->run();
  }

  /// Registers a wait; its waiter must `forget` the id before it dies.
  [[nodiscard]] wait_id park(parked& waiter);
  /// Ends a wait, and gives its waiter; null where it is over already.
  [[nodiscard]] parked* take(wait_id id) noexcept;
  void forget(wait_id id) noexcept { (void)take(id); }
  [[nodiscard]] bool waiting(wait_id id) const noexcept;

  /// Wakes the waiter (with null) in the next `run_ready`, not on the caller's stack.
  void make_ready(wait_id id) { ready_.push_back(id); }
  /// Wakes what was made ready, also by those woken here.
  void run_ready();

  void destroy_all() noexcept;
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] std::size_t roots() const noexcept { return roots_; }
  [[nodiscard]] std::size_t waits() const noexcept { return slots_.size() - free_.size(); }

private:
  struct root {
    explicit root(scope& owner) noexcept;
    root(const root&) = delete;
    root& operator=(const root&) = delete;
    virtual ~root();
    scope& owner_;
    root* previous_ = nullptr;
    root* next_ = nullptr;
  };

  template <class T, class Done> struct root_of final : root {
    root_of(scope& owner, task<T> body, Done done) : root(owner), done_(std::move(done)), body_(std::move(body)) {}
    void run() {
      if (body_.begin(&root_of::finished, this)) deliver();
    }
    static std::coroutine_handle<> finished(detail::promise_base& promise) noexcept {
      static_cast<root_of*>(promise.waiter)->deliver();
      return std::noop_coroutine();
    }
    outcome<T> take() noexcept {
      try {
        if constexpr (std::is_void_v<T>) {
          body_.take();
          return {};
        } else {
          return {nullptr, body_.take()};
        }
      } catch (...) {
        outcome<T> failed;
        failed.failure = std::current_exception();
        return failed;
      }
    }
    void deliver() noexcept {
      auto result = take();
      Done done = std::move(done_);
      delete this; // the frame is suspended at its end
      done(std::move(result));
    }
    Done done_;
    task<T> body_;
  };

  struct slot {
    parked* waiter = nullptr;
    std::uint32_t generation = 1;
  };

  root* newest_ = nullptr;
  std::size_t roots_ = 0;
  bool closed_ = false;
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
  std::deque<wait_id> ready_;
};

} // namespace godwit::runtime::async
