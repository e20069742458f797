#include "sim/scheduler.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/detail/simple_actor_clock.hpp>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/resumable.hpp>

#include <algorithm>
#include <iterator>

namespace godwit::runtime::sim::detail {

namespace {

/// CAF gives its time point 0 a meaning of its own.
constexpr std::chrono::nanoseconds origin{1};

/// Stands where CAF has a thread that prints for actors. Ours do not print.
class silent_printer final : public caf::monitorable_actor {
public:
  explicit silent_printer(caf::actor_config& config) : caf::monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr, caf::execution_unit*) override {}
};

} // namespace

caf::actor_clock::time_point virtual_clock::now() const noexcept { return time_point{world_.timers.now() + origin}; }

std::chrono::nanoseconds virtual_clock::earliest() const noexcept {
  return schedule_.begin()->first.time_since_epoch() - origin;
}

void virtual_clock::fire_one(async::counter_random& random) {
  const auto due = schedule_.equal_range(schedule_.begin()->first);
  const auto count = static_cast<std::uint64_t>(std::distance(due.first, due.second));
  const auto chosen = std::next(due.first, count > 1 ? static_cast<std::ptrdiff_t>(random.below(count)) : 0);
  const auto timeout = std::move(chosen->second);
  schedule_.erase(chosen);
  if (timeout->backlink != actor_lookup_.end()) actor_lookup_.erase(timeout->backlink);
  ship(*timeout);
}

scheduler::scheduler(caf::actor_system& system, world_state& world)
    : caf::scheduler::abstract_coordinator(system), world_(world), clock_(world), unit_(*this) {
  world_.systems.push_back(this);
}

scheduler::~scheduler() { std::erase(world_.systems, this); }

void scheduler::run(caf::resumable* job) {
  switch (job->resume(&unit_, 1)) {
  case caf::resumable::resume_later:
    enqueue(job);
    break;
  case caf::resumable::done:
  case caf::resumable::awaiting_message:
    caf::intrusive_ptr_release(job);
    break;
  case caf::resumable::shutdown_execution_unit:
    break;
  }
}

void scheduler::start() {
  caf::actor_config config{&unit_};
  utility_actors_[printer_id] =
      caf::make_actor<silent_printer, caf::actor>(system().next_actor_id(), system().node(), &system(), config);
}

// From the system's destructor, which has told CAF's own actors to end.
void scheduler::stop() {
  while (world_.run_ready()) {
  }
  clock_.cancel_all();
  while (world_.run_ready()) {
  }
}

} // namespace godwit::runtime::sim::detail
