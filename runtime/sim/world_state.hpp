#pragma once

#include "sim/network_state.hpp"
#include "sim/node.hpp"
#include "sim/timer_queue.hpp"
#include "sim/timetable.hpp"

#include <godwit/runtime/async/counter_random.hpp>
#include <godwit/runtime/sim/event_log.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace caf {
class resumable;
}

namespace godwit::runtime::sim::detail {

/// Timers of code that is no actor. Equal times: as they were set.
class world_timers final : public timer_source {
public:
  [[nodiscard]] std::chrono::nanoseconds now() const noexcept override { return now_; }
  timer_id call_after(std::chrono::nanoseconds delay, std::function<void()> function) override {
    return due_.add(now_ + std::max(async::bounded_wait(delay), std::chrono::nanoseconds{0}), std::move(function));
  }
  bool cancel(timer_id id) override { return due_.cancel(id); }
  [[nodiscard]] bool empty() const noexcept { return due_.empty(); }
  [[nodiscard]] std::chrono::nanoseconds earliest() const noexcept { return due_.earliest(); }
  void fire_one() { due_.fire_one(); }
  void advance(std::chrono::nanoseconds to) noexcept { now_ = std::max(now_, to); }

private:
  std::chrono::nanoseconds now_{0};
  timer_queue due_;
};

/// What a world is made of: time, the order's random numbers, what is ready to run, the nodes and what joins them.
class world_state {
public:
  explicit world_state(std::uint64_t world_seed);
  ~world_state();

  node& add_node(std::string name);
  void push(node& owner, caf::resumable* job);
  /// One message; false where nothing is ready.
  bool run_ready();
  /// One timer; false where there is none.
  bool fire_timer();
  /// One of the two.
  bool step();
  void spend(std::chrono::nanoseconds most) noexcept { work_max_ = most; }
  /// Runs what is ready on this node and nothing else, until nothing is: for taking a system down. In order, since
  /// nobody is there to see another one.
  void drain(node& owner);

  void crash(node& n, crash_kind kind);
  void freeze(node& n);
  void thaw(node& n);
  /// It ends in good order, or its remains are removed; what it sends from now on goes nowhere.
  void leave(node& n);

  void log_to(event_log* to) noexcept;
  void log(event::kind_type kind, std::uint32_t receiver_node, std::uint32_t sender_node, std::string_view type = {});

  const std::uint64_t seed;
  async::counter_random order;
  world_timers timers;
  timetable living;                         ///< those that have timers
  std::vector<std::unique_ptr<node>> nodes; ///< by number
  network_state network;
  std::uint64_t steps = 0;
  event_log* events = nullptr;
  std::shared_ptr<trace::recorder> recorder; ///< null: nobody records

private:
  void park(node& n);
  [[nodiscard]] bool timer_is_due();
  std::chrono::nanoseconds work_max_{0}; ///< that handling a message takes
  std::vector<std::pair<node*, caf::resumable*>> ready_;
  std::thread::id owner_ = std::this_thread::get_id();
};

} // namespace godwit::runtime::sim::detail
