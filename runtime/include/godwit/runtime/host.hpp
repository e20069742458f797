#pragma once

#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/context.hpp>
#include <godwit/runtime/interface.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace godwit::runtime {

class actor_base;

namespace detail {
class engine;
using actor_factory = std::function<std::unique_ptr<actor_base>(actor_context)>;
} // namespace detail

/// Gets one line about what nobody else hears of: an exception in a handler, a message that could not be sent. From any
/// thread.
using report_function = std::function<void(std::string_view actor, std::string_view text)>;

/// What runs actors: actor_system with threads and the machine's clock, sim::system with a seed and virtual time. Both
/// understand the same, so the same program runs on either. "From any thread" and "thread-safe" are said of
/// actor_system: a sim::system is for the thread of its world, and a call from another one ends the program.
class actor_host {
public:
  actor_host(const actor_host&) = delete;
  actor_host& operator=(const actor_host&) = delete;
  virtual ~actor_host();

  /// Makes an actor: `Actor(actor_context, args...)` on the caller's thread, `make_behavior` on the actor's own.
  /// Thread-safe. The actor lives until it quits or is stopped, whether its handle is kept or not.
  template <class Actor, class... Args> handle<typename Actor::interface_type> spawn(Args&&... args) {
    using interface = typename Actor::interface_type;
    std::vector<const message_type*> types;
    interface::collect_types(types);
    return handle<interface>{spawn_with(
        [&](actor_context context) -> std::unique_ptr<actor_base> {
          return std::make_unique<Actor>(context, std::forward<Args>(args)...);
        },
        types)};
  }

  /// Asks from outside the actors and waits for the answer: blocks the thread (a simulation runs meanwhile), for
  /// `async::longest_wait` at most. Thread-safe; never from an actor's handler.
  template <class Interface, class Message>
  auto ask(const handle<Interface>& to, std::chrono::nanoseconds timeout, Message&& message) {
    using content = std::remove_cvref_t<Message>;
    static_assert(Interface::template accepts<content>, "the receiver does not understand this message");
    using reply = typename Interface::template reply_of<content>;
    async::expected<reply> out{async::error{async::error_code::timeout}};
    ask_and_wait(to.ref(), timeout, detail::draft::of<content>(std::forward<Message>(message)),
                 [&](detail::answer& a) { out = detail::unpack<reply>(a); });
    return out;
  }
  /// From any thread (in a simulation: from its only one, as all else).
  template <class Interface, class Message> void tell(const handle<Interface>& to, Message&& message) {
    using content = std::remove_cvref_t<Message>;
    static_assert(Interface::template accepts<content>, "the receiver does not understand this message");
    send(to.ref(), detail::draft::of<content>(std::forward<Message>(message)));
  }
  /// Thread-safe. It ends after the messages that are there already; `killed` does not wait for these.
  template <class Interface> void stop(const handle<Interface>& whom, stop_reason reason = stop_reason::shutdown) {
    stop_actor(whom.ref(), reason);
  }

  /// Has everybody on this host who monitors or asks this actor of another node hear that it is down. For actors of a
  /// third node, one that is reached by way of a second: of its end no word comes by itself. Nothing happens for an
  /// actor of this host.
  template <class Interface> void declare_down(const handle<Interface>& whom) { declare_actor_down(whom.ref()); }

  [[nodiscard]] const runtime::clock& clock() const noexcept;
  /// Actors that have not ended.
  [[nodiscard]] std::size_t alive() const;
  /// Messages that may come from other nodes besides those of the interfaces spawned here.
  template <class... Messages> void register_messages() {
    const std::vector<const message_type*> types{&message_type_of<Messages>...};
    register_types(types);
  }

  /// The same for all that actors of these interfaces understand and answer, where none is spawned here.
  template <class... Interfaces> void register_interfaces() {
    std::vector<const message_type*> types;
    (Interfaces::collect_types(types), ...);
    register_types(types);
  }

  /// @private
  [[nodiscard]] detail::engine& engine() const noexcept { return *engine_; }

protected:
  explicit actor_host(std::unique_ptr<detail::engine> engine);
  actor_ref spawn_with(const detail::actor_factory& make, const std::vector<const message_type*>& types);
  void send(const actor_ref& to, detail::draft message);
  void stop_actor(const actor_ref& whom, stop_reason reason);
  void declare_actor_down(const actor_ref& whom);
  void register_types(const std::vector<const message_type*>& types);
  virtual void ask_and_wait(const actor_ref& to, std::chrono::nanoseconds timeout, detail::draft message,
                            const std::function<void(detail::answer&)>& take) = 0;
  std::unique_ptr<detail::engine> engine_;
};

} // namespace godwit::runtime
