#pragma once

#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/sim/event_log.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace caf {
class resumable;
}

namespace godwit::runtime::sim::detail {

class scheduler;

/// Timers of code that is no actor. Equal times: as they were set.
class world_timers final : public timer_source {
public:
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return now_; }
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override;
  bool cancel(timer_id id) override;
  [[nodiscard]] bool empty() const noexcept { return due_.empty(); }
  [[nodiscard]] std::chrono::nanoseconds earliest() const noexcept { return due_.begin()->first.first; }
  void fire_one();
  void advance(std::chrono::nanoseconds to) noexcept { now_ = std::max(now_, to); }

private:
  using key = std::pair<std::chrono::nanoseconds, timer_id>;
  std::chrono::nanoseconds now_{0};
  timer_id last_ = 0;
  std::map<key, std::function<void()>> due_;
  std::unordered_map<timer_id, std::chrono::nanoseconds> times_;
};

/// What a world is made of: time, the order's random numbers, what is ready to run, the systems whose clocks it drives.
class world_state {
public:
  explicit world_state(std::uint64_t world_seed) : seed(world_seed), order(world_seed, 0) {}
  void push(scheduler& owner, caf::resumable* job);
  /// One message; false where nothing is ready.
  bool run_ready();
  /// One timer; false where there is none.
  bool fire_timer();

  const std::uint64_t seed;
  async::counter_random order;
  world_timers timers;
  std::vector<scheduler*> systems;
  std::uint64_t steps = 0;
  event_log* log = nullptr;
  std::function<void(event_log*)> log_changed;

private:
  std::vector<std::pair<scheduler*, caf::resumable*>> ready_;
  std::thread::id owner_ = std::this_thread::get_id();
};

} // namespace godwit::runtime::sim::detail
