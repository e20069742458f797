#pragma once

#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/host.hpp>
#include <godwit/runtime/sim/event_log.hpp>
#include <godwit/runtime/sim/network.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::runtime::sim {

namespace detail {
struct node;
class world_state;
} // namespace detail

/// Simulated time and order: one thread, one clock that jumps, one seed.
///
/// A step is one message of one actor, chosen at random among those that have any; where none has, the clock goes to
/// the earliest timer. So messages between a pair of actors stay in order and everything else is free, as with threads.
/// Same program, same seed: the same run, on every machine. Actors must get time and random numbers from here and must
/// not depend on addresses (handles order and hash by id).
///
/// All of it happens on the thread that made the world. A message from another one ends the program with a line that
/// names its receiver, since runs would differ: what has threads of its own (gpu::cpu's executor, the fabrics
/// in_process and ucx, timer_thread) has no place here. A world's devices and fabrics are those of gpu::sim and
/// transport::sim.
class world {
public:
  explicit world(std::uint64_t seed);
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world();

  /// For code that is no actor (a simulated device).
  [[nodiscard]] timer_source& timers() noexcept;
  [[nodiscard]] const runtime::clock& clock() noexcept { return timers(); }
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept;
  /// Random numbers that follow from the seed, by stream, so that one part's draws do not shift another's.
  [[nodiscard]] async::counter_random random(std::uint64_t stream) const noexcept;

  /// From now on handling a message takes the world up to `most`, drawn for each. Timers fall due meanwhile, and take
  /// turns with the messages that are ready: so asks within a process can time out, and others' messages arrive in the
  /// middle of a conversation. 0, as at first: messages take no time, and those that are ready come before any timer.
  void spend(std::chrono::nanoseconds most) noexcept;

  /// One message or one timer; false where nothing is left to happen.
  bool step();
  /// Until nothing is left to happen. False: `steps_max` came first.
  bool run(std::uint64_t steps_max = ~std::uint64_t{0});
  /// Until the condition holds (looked at before every step); false where nothing is left to happen or after
  /// `steps_max`.
  bool run_until(const std::function<bool()>& condition, std::uint64_t steps_max = ~std::uint64_t{0});
  /// Lets so much time pass, `async::longest_wait` at most.
  void run_for(std::chrono::nanoseconds duration);

  [[nodiscard]] std::uint64_t steps() const noexcept;
  /// What lies between the systems of this world.
  [[nodiscard]] sim::network& network() noexcept { return *network_; }

  /// Everything delivered from now on; null: off. The log must live as long.
  void log_to(event_log* log) noexcept;

  /// What actors of the systems made from now on say to each other; null: nobody records. The recorder's clock must be
  /// this world's.
  void record_to(std::shared_ptr<trace::recorder> recorder) noexcept;

  /// @private
  [[nodiscard]] detail::world_state& state() noexcept { return *state_; }

private:
  std::unique_ptr<detail::world_state> state_;
  std::unique_ptr<sim::network> network_;
};

struct system_settings {
  report_function report; ///< default: standard error
  std::string name;       ///< its machine's; default: `node-NUMBER`
};

/// How a process ends without a word.
enum class crash_kind : std::uint8_t {
  reset,  ///< it was killed: its machine closes the connections, and refuses new ones
  silent, ///< its machine is gone: peers learn by hearing nothing
};

/// Actors in a simulated world, with the interface of actor_system. Several in one world are the processes of a
/// cluster, joined by the world's network:
///
///     sim::world world{7};
///     sim::system a{world, {.name = "a"}}, b{world, {.name = "b"}};
///     auto port = a.publish(a.spawn<server>(), "a", 0);
///     auto far = b.remote<server_interface>("a", *port);
///     world.network().cut("a", "b");
class system final : public actor_host {
public:
  enum class state_type : std::uint8_t { running, frozen, crashed };

  /// Two systems that have not crashed must not have one name.
  explicit system(world& w, system_settings settings = {});
  /// Stops every actor and runs the world until they are gone. One that is frozen or has crashed is taken down without
  /// a step of the others; its actors' `on_stop` and destructors run, what they send arrives nowhere.
  ~system() override;
  /// Stops every actor; true where all are gone after at most `steps_max`.
  bool shutdown(std::uint64_t steps_max = 10'000'000);

  [[nodiscard]] const std::string& name() const noexcept;
  /// Counts from 0 in the order of making; what the event log calls this system.
  [[nodiscard]] std::uint32_t number() const noexcept;
  [[nodiscard]] state_type state() const noexcept;

  /// Makes the actor reachable as host:port, where host is this system's name (port 0: a free one). Gives the port.
  template <class Interface>
  [[nodiscard]] async::expected<std::uint16_t> publish(const handle<Interface>& whom, const std::string& host,
                                                       std::uint16_t port) {
    return publish_actor(whom.ref(), host, port);
  }
  /// The actor published at host:port. Checks that it understands Interface. The world runs meanwhile, for `timeout` at
  /// most.
  template <class Interface>
  [[nodiscard]] async::expected<handle<Interface>> remote(const std::string& host, std::uint16_t port,
                                                          std::chrono::nanoseconds timeout = std::chrono::seconds{10}) {
    // shared: a frozen system gets its answer after this has returned
    auto out = std::make_shared<std::optional<async::expected<handle<Interface>>>>();
    find<Interface>(host, port, timeout, [out](async::expected<handle<Interface>> found) { *out = std::move(found); });
    run_until([&] { return out->has_value(); }, async::bounded_wait(timeout) + std::chrono::microseconds{1});
    if (*out) return std::move(**out);
    return async::error{async::error_code::timeout, "no answer in time"};
  }
  /// The same without running the world: `done` is called once, from a later step; never, where this system has crashed
  /// by then. For a member's way to its head.
  template <class Interface>
  void find(const std::string& host, std::uint16_t port, std::chrono::nanoseconds timeout,
            std::function<void(async::expected<handle<Interface>>)> done) {
    std::vector<const message_type*> types;
    Interface::collect_types(types);
    find_actor(host, port, timeout, std::move(types), Interface::size,
               [done = std::move(done)](async::expected<actor_ref> found) {
                 if (found)
                   done(handle<Interface>{std::move(*found)});
                 else
                   done(std::move(found).error());
               });
  }

  /// Timers of this process: they stand still while it is frozen, follow its clock and end with it. For its simulated
  /// devices.
  [[nodiscard]] timer_source& timers() noexcept;

  /// Nothing of this system runs any more. For good; the object stays until it is destroyed.
  void crash(crash_kind kind = crash_kind::reset);
  /// Nothing of it runs until `thaw`; messages pile up and timers come late. As by SIGSTOP.
  void freeze();
  void thaw();
  /// This system's clock goes forward by so much at once: its actors' deadlines and its timers come early. Negative
  /// values do nothing, since clocks are steady.
  void jump_clock(std::chrono::nanoseconds forward);

private:
  system(world& w, detail::node& n, report_function report);
  async::expected<std::uint16_t> publish_actor(const actor_ref& whom, const std::string& host, std::uint16_t port);
  void find_actor(const std::string& host, std::uint16_t port, std::chrono::nanoseconds timeout,
                  std::vector<const message_type*> types, std::size_t messages,
                  std::function<void(async::expected<actor_ref>)> done);
  /// Until the condition holds, for so long at most.
  void run_until(const std::function<bool()>& condition, std::chrono::nanoseconds timeout);
  void ask_and_wait(const actor_ref& to, std::chrono::nanoseconds timeout, runtime::detail::draft message,
                    const std::function<void(runtime::detail::answer&)>& take) override;
  /// Ends all actors of a system that does not run.
  void take_down();
  world& world_;
  detail::node& node_;
};

} // namespace godwit::runtime::sim
