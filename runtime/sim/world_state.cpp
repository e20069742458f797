#include "sim/world_state.hpp"

#include "actor/actor_core.hpp"
#include "actor/engine.hpp"
#include "sim/scheduler.hpp"

#include <caf/node_id.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace godwit::runtime::sim::detail {

namespace {
/// Of all simulated nodes; they differ in their process's number.
constexpr auto host_id = "676f64776974000000000000000000000000000a";

/// Asks for an actor's memory, with what CAF has before and we have behind its own: in a large cluster it has long left
/// the caches.
void fetch(const caf::resumable* job) noexcept {
#if defined(__GNUC__)
  constexpr std::ptrdiff_t line = 64;
  for (std::ptrdiff_t at = -4 * line; at < 20 * line; at += line)
    __builtin_prefetch(reinterpret_cast<const char*>(job) + at);
#endif
}
} // namespace

world_state::world_state(std::uint64_t world_seed) : seed(world_seed), order(world_seed, 0), network(*this) {}

world_state::~world_state() = default;

node& world_state::add_node(std::string name) {
  const auto number = static_cast<std::uint32_t>(nodes.size());
  if (name.empty()) name = "node-" + std::to_string(number);
  for (const auto& other : nodes)
    if (other->name == name && !other->dead()) throw std::invalid_argument("a system of this name runs: " + name);
  const auto machine = network.machine(name);
  auto id = caf::make_node_id(number + 1, host_id);
  nodes.push_back(std::make_unique<node>(timers, living, number, std::move(name), machine, std::move(*id)));
  auto& made = *nodes.back();
  network.add(made);
  living.add(made);
  return made;
}

void world_state::push(node& owner, caf::resumable* job) {
  if (std::this_thread::get_id() != owner_) {
    // runs would differ: nothing in a world may have a thread of its own
    auto* const receiver = dynamic_cast<runtime::detail::actor_core*>(job);
    std::fprintf(stderr,
                 "godwit: in a simulated world %s from another thread; devices and fabrics of a world are gpu::sim and "
                 "transport::sim\n",
                 receiver ? receiver->what_came().c_str() : "an actor got a message");
    std::abort();
  }
  fetch(job);
  if (owner.running())
    ready_.emplace_back(&owner, job);
  else
    owner.parked.push_back(job);
}

bool world_state::run_ready() {
  if (ready_.empty()) return false;
  const auto chosen = ready_.size() > 1 ? order.below(ready_.size()) : 0;
  const auto [owner, job] = ready_[chosen];
  ready_[chosen] = ready_.back();
  ready_.pop_back();
  ++steps;
  owner->jobs->run(job);
  if (work_max_.count() > 0) {
    const auto work = static_cast<std::int64_t>(order.below(static_cast<std::uint64_t>(work_max_.count()) + 1));
    timers.advance(timers.now() + std::chrono::nanoseconds{work});
  }
  return true;
}

bool world_state::timer_is_due() {
  if (!timers.empty() && timers.earliest() <= timers.now()) return true;
  return living.earliest() <= timers.now();
}

// Where messages take no time, all that are ready come before the next timer.
bool world_state::step() {
  if (work_max_.count() > 0 && !ready_.empty() && timer_is_due() && order.below(2) == 0) return fire_timer();
  return run_ready() || fire_timer();
}

bool world_state::fire_timer() {
  auto best = std::chrono::nanoseconds::max();
  node* whose = nullptr;
  bool of_actor = false;
  bool any = false;
  std::uint64_t equals = 0;
  // Of those due first, one drawn at random. What is overdue, on a node that was frozen, is due now.
  const auto consider = [&](std::chrono::nanoseconds time, node* n, bool actors) {
    time = std::max(time, timers.now());
    if (!any || time < best)
      equals = 1;
    else if (time > best || order.below(++equals) != 0)
      return;
    best = time;
    whose = n;
    of_actor = actors;
    any = true;
  };
  if (!timers.empty()) consider(timers.earliest(), nullptr, false);
  living.each_due(best, [&](node& n) {
    if (!n.timers.empty()) consider(n.timers.earliest(), &n, false);
    if (n.jobs && !n.jobs->clock().empty()) consider(n.jobs->clock().earliest(), &n, true);
    return best;
  });
  if (!any) return false;
  timers.advance(best);
  ++steps;
  if (!whose)
    timers.fire_one();
  else if (of_actor)
    whose->jobs->clock().fire_one(order);
  else
    whose->timers.fire_one();
  return true;
}

void world_state::drain(node& owner) {
  park(owner);
  for (std::size_t i = 0; i < owner.parked.size(); ++i) owner.jobs->run(owner.parked[i]);
  owner.parked.clear();
}

void world_state::park(node& n) {
  const auto first =
      std::stable_partition(ready_.begin(), ready_.end(), [&](const auto& entry) { return entry.first != &n; });
  for (auto i = first; i != ready_.end(); ++i) n.parked.push_back(i->second);
  ready_.erase(first, ready_.end());
}

void world_state::crash(node& n, crash_kind kind) {
  if (n.dead()) return;
  n.state = node::state_type::crashed;
  n.silent = kind == crash_kind::silent;
  living.remove(n);
  park(n);
  log(event::kind_type::crashed, n.number, n.number);
  network.ended(n);
}

void world_state::freeze(node& n) {
  if (!n.running()) return;
  n.state = node::state_type::frozen;
  living.remove(n);
  park(n);
  log(event::kind_type::frozen, n.number, n.number);
  network.stopped(n);
}

void world_state::thaw(node& n) {
  if (n.state != node::state_type::frozen) return;
  n.state = node::state_type::running;
  living.add(n);
  for (auto* job : n.parked) ready_.emplace_back(&n, job);
  n.parked.clear();
  log(event::kind_type::thawed, n.number, n.number);
  network.resumed(n);
  for (auto& knock : std::exchange(n.knocking, {})) knock();
}

void world_state::leave(node& n) {
  const bool ended = n.dead();
  n.state = node::state_type::gone;
  living.remove(n);
  park(n);
  if (!ended) network.ended(n);
  n.timers.close();
  for (auto& knock : std::exchange(n.knocking, {})) knock();
}

void world_state::log_to(event_log* to) noexcept {
  events = to;
  for (const auto& n : nodes)
    if (n->engine) n->engine->place.log = to;
}

void world_state::log(event::kind_type kind, std::uint32_t receiver_node, std::uint32_t sender_node,
                      std::string_view type) {
  if (!events) return;
  event e;
  e.time = timers.now();
  e.kind = kind;
  e.receiver_node = receiver_node;
  e.sender_node = sender_node;
  e.type = type;
  events->add(e);
}

} // namespace godwit::runtime::sim::detail
