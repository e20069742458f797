#pragma once

#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/clock.hpp>
#include <godwit/runtime/host.hpp>
#include <godwit/runtime/sim/event_log.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace godwit::runtime::sim {

namespace detail {
class scheduler;
class world_state;
} // namespace detail

/// Simulated time and order: one thread, one clock that jumps, one seed.
///
/// A step is one message of one actor, chosen at random among those that have any; where none has, the clock goes to
/// the earliest timer. So messages between a pair of actors stay in order and everything else is free, as with threads.
/// Same program, same seed: the same run, on every machine. Actors must get time and random numbers from here and must
/// not depend on addresses (handles order and hash by id).
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

  /// One message or one timer; false where nothing is left to happen.
  bool step();
  /// Until nothing is left to happen. False: `steps_max` came first.
  bool run(std::uint64_t steps_max = ~std::uint64_t{0});
  /// Until the condition holds (looked at before every step); false where nothing is left to happen or after
  /// `steps_max`.
  bool run_until(const std::function<bool()>& condition, std::uint64_t steps_max = ~std::uint64_t{0});
  /// Lets so much time pass.
  void run_for(std::chrono::nanoseconds duration);

  [[nodiscard]] std::uint64_t steps() const noexcept;
  /// Everything delivered from now on; null: off. The log must live as long.
  void log_to(event_log* log) noexcept;

  /// @private
  [[nodiscard]] detail::world_state& state() noexcept { return *state_; }

private:
  std::unique_ptr<detail::world_state> state_;
};

struct system_settings {
  report_function report; ///< default: standard error
};

/// Actors in a simulated world, with the interface of actor_system. A world has one system; links between several are
/// made in runtime/sim when clusters are simulated.
class system final : public actor_host {
public:
  explicit system(world& w, system_settings settings = {});
  /// Stops every actor and runs the world until they are gone.
  ~system() override;
  /// Stops every actor; true where all are gone after at most `steps_max`.
  bool shutdown(std::uint64_t steps_max = 10'000'000);

private:
  void ask_and_wait(const actor_ref& to, std::chrono::nanoseconds timeout, runtime::detail::draft message,
                    const std::function<void(runtime::detail::answer&)>& take) override;
  world& world_;
};

} // namespace godwit::runtime::sim
