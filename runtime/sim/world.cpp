#include <godwit/runtime/sim/world.hpp>

#include "sim/scheduler.hpp"
#include "sim/world_state.hpp"

#include <cstdio>
#include <cstdlib>

namespace godwit::runtime::sim {

namespace detail {

timer_source::timer_id world_timers::call_after(std::chrono::nanoseconds delay, std::function<void()> function) {
  const auto time = now_ + std::max(delay, std::chrono::nanoseconds{0});
  due_.emplace(key{time, ++last_}, std::move(function));
  times_.emplace(last_, time);
  return last_;
}

bool world_timers::cancel(timer_id id) {
  const auto found = times_.find(id);
  if (found == times_.end()) return false;
  due_.erase(key{found->second, id});
  times_.erase(found);
  return true;
}

void world_timers::fire_one() {
  auto first = due_.extract(due_.begin());
  times_.erase(first.key().second);
  first.mapped()();
}

void world_state::push(scheduler& owner, caf::resumable* job) {
  if (std::this_thread::get_id() != owner_) {
    // a bug of ours that would make runs differ: nothing in a world may have a thread of its own
    std::fputs("godwit: a simulated actor got a message from another thread\n", stderr);
    std::abort();
  }
  ready_.emplace_back(&owner, job);
}

bool world_state::run_ready() {
  if (ready_.empty()) return false;
  const auto chosen = ready_.size() > 1 ? order.below(ready_.size()) : 0;
  const auto [owner, job] = ready_[chosen];
  ready_[chosen] = ready_.back();
  ready_.pop_back();
  ++steps;
  owner->run(job);
  return true;
}

bool world_state::fire_timer() {
  auto best = std::chrono::nanoseconds::max();
  scheduler* whose = nullptr;
  bool any = false;
  std::uint64_t equals = 0;
  if (!timers.empty()) {
    best = timers.earliest();
    any = true;
    equals = 1;
  }
  for (auto* system : systems) {
    auto& clock = system->clock();
    if (clock.empty()) continue;
    const auto time = clock.earliest();
    if (!any || time < best) {
      best = time;
      whose = system;
      any = true;
      equals = 1;
    } else if (time == best && order.below(++equals) == 0) {
      whose = system;
    }
  }
  if (!any) return false;
  timers.advance(best);
  ++steps;
  if (whose)
    whose->clock().fire_one(order);
  else
    timers.fire_one();
  return true;
}

} // namespace detail

world::world(std::uint64_t seed) : state_(std::make_unique<detail::world_state>(seed)) {}
world::~world() = default;

timer_source& world::timers() noexcept { return state_->timers; }
std::chrono::nanoseconds world::now() const noexcept { return state_->timers.now(); }
async::counter_random world::random(std::uint64_t stream) const noexcept {
  return async::counter_random{state_->seed, stream + 1}; // stream 0 draws the order
}
std::uint64_t world::steps() const noexcept { return state_->steps; }

void world::log_to(event_log* log) noexcept {
  state_->log = log;
  if (state_->log_changed) state_->log_changed(log);
}

bool world::step() { return state_->run_ready() || state_->fire_timer(); }

bool world::run(std::uint64_t steps_max) {
  for (std::uint64_t i = 0; i < steps_max; ++i)
    if (!step()) return true;
  return false;
}

bool world::run_until(const std::function<bool()>& condition, std::uint64_t steps_max) {
  for (std::uint64_t i = 0; i < steps_max; ++i) {
    if (condition()) return true;
    if (!step()) return condition();
  }
  return condition();
}

void world::run_for(std::chrono::nanoseconds duration) {
  bool over = false;
  timers().call_after(duration, [&over] { over = true; });
  run_until([&over] { return over; });
}

} // namespace godwit::runtime::sim
