#include "sim/scheduler.hpp"

#include "actor/node_identity.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/make_actor.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/resumable.hpp>

namespace godwit::runtime::sim::detail {

namespace {

/// Stands where CAF has a thread that prints for actors. Ours do not print.
class silent_printer final : public caf::monitorable_actor {
public:
  explicit silent_printer(caf::actor_config& config) : caf::monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr, caf::execution_unit*) override {}
};

} // namespace

scheduler::scheduler(caf::actor_system& system, world_state& world, node& owner)
    : caf::scheduler::abstract_coordinator(system), world_(world), node_(owner), clock_(owner.timers), unit_(*this),
      endpoint_(system, unit_, world.network, owner) {
  unit_.proxy_registry_ptr(&endpoint_.proxies());
  node_.jobs = this;
  node_.endpoint = &endpoint_;
}

scheduler::~scheduler() {
  node_.jobs = nullptr;
  node_.endpoint = nullptr;
}

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

// Before the system makes its first actor, which takes the id.
void scheduler::init(caf::actor_system_config& config) {
  caf::scheduler::abstract_coordinator::init(config);
  caf::net::middleman::set_node(system(), node_.id);
}

void scheduler::start() {
  caf::actor_config config{&unit_};
  utility_actors_[printer_id] =
      caf::make_actor<silent_printer, caf::actor>(system().next_actor_id(), system().node(), &system(), config);
}

// From the system's destructor, which has told CAF's own actors to end.
void scheduler::stop() {
  world_.drain(node_);
  clock_.cancel_all();
  endpoint_.clear();
  world_.drain(node_);
}

} // namespace godwit::runtime::sim::detail
