#pragma once

#include <godwit/runtime/async/abort.hpp>
#include <godwit/runtime/async/race.hpp>
#include <godwit/runtime/async/task.hpp>
#include <godwit/runtime/behavior.hpp>
#include <godwit/runtime/host.hpp>
#include <godwit/runtime/operations.hpp>

#include <chrono>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

namespace godwit::runtime {

/// What every actor can do. Its members are touched on its own context only: by its handlers, its coroutines and the
/// functions that it gave to `monitor`; so they need no locks.
///
/// Coroutines of an actor are member functions with parameters by value, started by a handler's return value or
/// `start`. They may use `this` freely: frames are destroyed before the actor.
///
/// When an actor ends (`quit`, `stop`, its system's shutdown): `on_stop`, then its frames, newest first, which answers
/// what they owe with error_code::down; then the actor object. Requests still in its mailbox are answered with
/// error_code::down too.
class actor_base {
public:
  explicit actor_base(actor_context context) noexcept : context_(context) {}
  actor_base(const actor_base&) = delete;
  actor_base& operator=(const actor_base&) = delete;
  virtual ~actor_base() = default;

  /// Shown in logs.
  [[nodiscard]] virtual std::string_view name() const noexcept { return "actor"; }
  /// The last thing that the actor does, on its context. It may tell, not wait.
  virtual void on_stop() {}
  /// An exception left a handler (`where`: its message) or a root coroutine. The request was answered; the actor goes
  /// on, unless this decides to `quit`. The default hands it to the system's report function.
  virtual void on_fault(const std::exception_ptr& failure, std::string_view where);

  /// @private
  virtual detail::handler_table make_handlers() = 0;

protected:
  using nanoseconds = std::chrono::nanoseconds;

  /// Sends a request and gives its answer: `expected<Reply> x = co_await ask(to, 1s, message)`. Ends after the timeout
  /// at the latest, and as soon as the asked actor is known to be dead.
  template <class Interface, class Message>
  [[nodiscard]] auto ask(const handle<Interface>& to, nanoseconds timeout, Message&& message) {
    using content = std::remove_cvref_t<Message>;
    check<Interface, content>();
    return ask_operation<typename Interface::template reply_of<content>>{
        context_, to.ref(), timeout, detail::draft::of<content>(std::forward<Message>(message))};
  }
  /// Sends a message and forgets it.
  template <class Interface, class Message> void tell(const handle<Interface>& to, Message&& message) {
    using content = std::remove_cvref_t<Message>;
    check<Interface, content>();
    context_.send(to.ref(), detail::draft::of<content>(std::forward<Message>(message)));
  }
  template <class Interface, class Message>
  void tell_after(nanoseconds delay, const handle<Interface>& to, Message&& message) {
    using content = std::remove_cvref_t<Message>;
    check<Interface, content>();
    context_.send_after(delay, to.ref(), detail::draft::of<content>(std::forward<Message>(message)));
  }
  [[nodiscard]] sleep_operation sleep_for(nanoseconds duration) { return {context_, duration}; }
  /// Waits for a completion from outside: `start` gets a completer<T>, to be called once from any thread.
  ///   auto error = co_await callback<std::string>([&](completer<std::string> done) { device.run(std::move(done)); });
  /// A closure that owns something (a handle, a string) must be named first and passed by name: g++ 12 frees the
  /// captures of a temporary closure in a co_await expression twice.
  template <class T, class Start> [[nodiscard]] auto callback(Start&& start) {
    return callback<T>(nanoseconds{0}, std::forward<Start>(start));
  }
  template <class T, class Start> [[nodiscard]] auto callback(nanoseconds timeout, Start&& start) {
    using function = std::remove_cvref_t<Start>;
    static_assert(std::is_lvalue_reference_v<Start> || std::is_trivially_destructible_v<function>,
                  "name the closure first: auto start = [...]; co_await callback<T>(start)");
    return callback_operation<T, function>{context_, timeout, std::forward<Start>(start)};
  }
  /// A handler's coroutine, whose result is the answer.
  template <class T> [[nodiscard]] async::task<T> respond(async::task<T> body) { return body; }
  /// Starts a coroutine of the actor's own.
  void start(async::task<void> body);

  /// Calls `on_down` once when the actor is gone (soon, where it is gone already). Not when this actor ends first.
  template <class Interface>
  std::uint64_t monitor(const handle<Interface>& whom, actor_context::down_function on_down) {
    return context_.monitor(whom.ref(), std::move(on_down));
  }
  void demonitor(std::uint64_t id) { context_.demonitor(id); }
  /// Each ends with the other, unless that one ends normally.
  template <class Interface> void link(const handle<Interface>& whom) { context_.link(whom.ref()); }
  template <class Interface> void stop(const handle<Interface>& whom, stop_reason reason = stop_reason::shutdown) {
    context_.stop(whom.ref(), reason);
  }
  /// Ends this actor after the current message.
  void quit(stop_reason reason = stop_reason::normal) { context_.quit(reason); }
  template <class Actor, class... Args> auto spawn(Args&&... args) {
    return host().template spawn<Actor>(std::forward<Args>(args)...);
  }

  /// Since the system's start.
  [[nodiscard]] nanoseconds now() const noexcept { return context_.clock().now(); }
  [[nodiscard]] actor_host& host() const noexcept { return context_.host(); }
  [[nodiscard]] async::scope& frames() const noexcept { return context_.frames(); }
  [[nodiscard]] const actor_context& context() const noexcept { return context_; }

private:
  template <class Interface, class Message> static constexpr void check() {
    static_assert(Interface::template accepts<Message>, "the receiver does not understand this message");
    static_assert(
        !is_unsafe_message<Message>,
        "give the message type a constructor: g++ 12 frees aggregate temporaries of a co_await expression twice");
  }
  actor_context context_;
};

/// An actor that understands `Interface`.
template <class Interface> class actor : public actor_base {
public:
  using interface_type = Interface;
  using actor_base::actor_base;
  [[nodiscard]] virtual behavior_of<Interface> make_behavior() = 0;
  detail::handler_table make_handlers() final { return make_behavior().take(); }

protected:
  [[nodiscard]] handle<Interface> self() const { return handle<Interface>{context().self()}; }
};

} // namespace godwit::runtime
