#include <godwit/runtime/sim/world.hpp>

#include "sim/world_state.hpp"

namespace godwit::runtime::sim {

world::world(std::uint64_t seed)
    : state_(std::make_unique<detail::world_state>(seed)), network_(std::make_unique<sim::network>(state_->network)) {}
world::~world() = default;

timer_source& world::timers() noexcept { return state_->timers; }
std::chrono::nanoseconds world::now() const noexcept { return state_->timers.now(); }
async::counter_random world::random(std::uint64_t stream) const noexcept {
  return async::counter_random{state_->seed, stream + 1}; // stream 0 draws the order
}
std::uint64_t world::steps() const noexcept { return state_->steps; }

void world::record_to(std::shared_ptr<trace::recorder> recorder) noexcept { state_->recorder = std::move(recorder); }
void world::log_to(event_log* log) noexcept { state_->log_to(log); }

void world::spend(std::chrono::nanoseconds most) noexcept { state_->spend(most); }

bool world::step() { return state_->step(); }

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
