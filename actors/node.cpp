#include <godwit/actors/node.hpp>

#include "milliseconds.hpp"
#include "watchers.hpp"

#include <godwit/runtime/trace/recorder.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace godwit::actors {

using runtime::async::task;
using std::chrono::nanoseconds;

node::node(runtime::actor_context context, node_options options)
    : actor(context), options_(std::move(options)), next_instance_(std::max(options_.instances, options_.capacity)),
      provisioning_(provisioning_of(options_)) {
  auto& patience = options_.frontend.migration_timeout;
  if (patience == nanoseconds{0}) patience = options_.llumlet.migration.settings.told_within();
  // Members' actors speak these, and perhaps none of them is spawned here.
  host()
      .register_interfaces<member_interface, llumlet_interface, instance_interface, frontend_interface,
                           source_coordinator_interface, destination_coordinator_interface, kv_store_interface>();
}

runtime::behavior_of<node_interface> node::make_behavior() {
  if (options_.provisioner) {
    options_.life = runtime::trace::input<std::uint32_t>("node.life", [&] { return options_.life; });
    provisioning_ = protocols::provisioning(provisioning_of(options_));
  }
  spawn_scheduler();
  spawn_frontend();
  if (next_instance_ > 0) spawn_member();
  announce();
  return {[this](status_query& query) { return respond(status(query.with_requests)); },
          [this](kill_instance& what) { kill(what.instance); },
          [this](topology_query&) { return view(); },
          [this](migrate_request& order) { return respond(migrate(std::move(order))); },
          [this](join_cluster& wish) { return admit(wish); },
          [this](member_news& news) { take_news(news); },
          [this](leave_cluster& notice) { leave(notice.key); },
          [this](end_notice&) { decide(protocols::provisioning::head_ends{}); },
          [this](policy_order& order) { return set_policies(order); },
          [this](history_query& query) { return respond(history(std::move(query))); },
          [this](drain_instance& order) { return drain(order); },
          [this](scaling_wish& wish) { carry_out(std::move(wish)); },
          [this](role_order& order) { return respond(set_role(order)); },
          [this](role_wish& wish) { carry_out(std::move(wish)); },
          [this](trace_order& order) { return respond(set_trace(std::move(order))); },
          [this](dump_order& order) { return respond(dump_trace(order)); },
          [this](dump_part_query& query) { return respond(read_dump(query)); },
          [this](store_news& news) { take_news(news); }};
}

void node::on_stop() {
  // The front end first, so that clients hear of the end before their instances are gone.
  if (frontend_) stop(frontend_);
  if (scheduler_) stop(scheduler_);
  if (own_member_) stop(own_member_);
  for (const auto& [key, further] : further_members_) stop(further);
}

std::chrono::nanoseconds node::next_pause(std::chrono::nanoseconds started, std::chrono::nanoseconds& backoff) {
  const bool settled = now() - started >= options_.settled_after;
  backoff = settled ? longer_pause({}, options_.backoff_min, options_.backoff_max)
                    : longer_pause(backoff, options_.backoff_min, options_.backoff_max);
  return backoff;
}

void node::spawn_scheduler() {
  scheduler_started_ = now();
  auto options = options_.scheduler;
  options.node = runtime::handle<node_interface>{self()};
  scheduler_ = spawn<global_scheduler>(std::move(options));
  monitor(scheduler_, [this](runtime::stop_reason reason) {
    const auto pause = next_pause(scheduler_started_, scheduler_backoff_);
    start(respawn_scheduler(pause)); // before anything that may fail
    scheduler_ = {};
    options_.log.error("the global scheduler is down ({}); dispatch by a simple rule until its restart in {} ms",
                       to_string(reason), milliseconds_of(pause));
    announce();
  });
}

task<void> node::respawn_scheduler(std::chrono::nanoseconds pause) {
  for (;; pause = next_pause(scheduler_started_, scheduler_backoff_)) {
    co_await sleep_for(pause);
    try {
      spawn_scheduler();
      break;
    } catch (...) { // a policy of an embedder's that cannot be made, for one
      if (scheduler_) stop(std::exchange(scheduler_, {}), runtime::stop_reason::killed); // nobody watches it
      context().report("the global scheduler cannot be started: " +
                       runtime::detail::describe(std::current_exception()).message);
    }
  }
  announce();
}

void node::spawn_frontend() {
  frontend_started_ = now();
  auto options = options_.frontend;
  // Request ids of a dead front end must not come again: instances may still run them.
  options.incarnation = frontend_restarts_++;
  frontend_ = spawn<frontend>(std::move(options));
  monitor(frontend_, [this](runtime::stop_reason reason) {
    const auto pause = next_pause(frontend_started_, frontend_backoff_);
    start(respawn_frontend(pause));
    frontend_ = {};
    options_.log.error("the front end is down ({}); restart in {} ms", to_string(reason), milliseconds_of(pause));
    announce();
  });
}

task<void> node::respawn_frontend(std::chrono::nanoseconds pause) {
  for (;; pause = next_pause(frontend_started_, frontend_backoff_)) {
    co_await sleep_for(pause);
    try {
      spawn_frontend();
      break;
    } catch (...) {
      if (frontend_) stop(std::exchange(frontend_, {}), runtime::stop_reason::killed);
      context().report("the front end cannot be started: " +
                       runtime::detail::describe(std::current_exception()).message);
    }
  }
  announce();
}

// Members of this process differ from others in their key and their way to the head only.
member_options node::options_of_member() const {
  member_options o;
  o.version = options_.version;
  o.address = options_.address;
  o.model = options_.identity;
  o.find_head = [head = runtime::handle<node_interface>{self()}](const std::function<void(found_head)>& done) {
    done(head);
  };
  o.backoff_min = options_.backoff_min;
  o.backoff_max = options_.backoff_max;
  o.settled_after = options_.settled_after;
  o.load_timeout = options_.load_timeout;
  o.instance = options_.instance;
  o.llumlet = options_.llumlet;
  o.log = options_.log;
  return o;
}

void node::spawn_member() {
  member_started_ = now();
  auto o = options_of_member();
  o.key = own_key;
  o.instances = options_.instances;
  o.capacity = options_.capacity;
  o.roles = options_.roles;
  own_member_ = spawn<member>(std::move(o));
  monitor(own_member_, [this](runtime::stop_reason reason) {
    const auto pause = next_pause(member_started_, member_backoff_);
    start(respawn_member(pause));
    own_member_ = {};
    options_.log.error("the keeper of this process's instances is down ({}); restart in {} ms", to_string(reason),
                       milliseconds_of(pause));
  });
}

task<void> node::respawn_member(std::chrono::nanoseconds pause) {
  for (;; pause = next_pause(member_started_, member_backoff_)) {
    co_await sleep_for(pause);
    try {
      spawn_member();
      break;
    } catch (...) {
      if (own_member_) stop(std::exchange(own_member_, {})); // nobody watches it
      report_caught(context(), "the keeper of this process's instances cannot be started");
    }
  }
}

topology node::view() const {
  topology out;
  out.version = version_;
  out.scheduler = scheduler_;
  out.frontend = frontend_;
  instance_list::entries instances;
  for (const auto& m : members_) {
    if (!m.member) continue;
    if (m.store && out.stores.size() < kv_store_settings::shards_max) out.stores.emplace_back(m.key, m.store);
    if (m.frontend) out.frontends.emplace_back(m.home, m.frontend);
    for (std::uint32_t i = 0; i < m.instances; ++i) {
      const auto& p = m.pairs[i];
      if (p.stopped) continue;
      const auto id = protocols::instance_id{m.first.value() + i};
      instances.emplace_back(id, p.generation, p.ready && p.llumlet, p.llumlet);
      // Told to drain, which its member may not have heard yet.
      instances.back().draining = provisioning_.draining(id);
      instances.back().role = p.role;
    }
  }
  out.instances = std::move(instances);
  std::ranges::sort(out.stores, {}, &store_entry::id);
  std::ranges::sort(out.frontends, {}, &frontend_entry::home);
  out.ordered = provisioning_.ordered();
  out.ends = provisioning_.ends();
  out.hands_over = scheduler_ && options_.scheduler.policies.hands_over(); // who would say what goes where?
  return out;
}

task<protocols::migration_report> node::migrate(migrate_request order) {
  protocols::migration_report refusal;
  refusal.request = order.request;
  refusal.destination = order.to;
  refusal.reason = protocols::migration_reason::home_lost;
  const bool by_name = !order.client_id.empty();
  auto candidates = homes_of(order.request, by_name);
  if (candidates.size() > 1) { // the one that has it; where nobody says so, the first one tells why it is not moved
    for (auto& home : candidates) {
      const auto known =
          co_await ask(home.frontend, options_.frontend.ask_timeout, history_query{order.request, order.client_id});
      if (!known || !known->found || known->ended) continue;
      std::swap(home, candidates.front());
      break;
    }
  }
  if (candidates.empty()) co_return refusal;
  auto report = co_await ask(candidates.front().frontend,
                             options_.frontend.migration_timeout + options_.frontend.ask_timeout, std::move(order));
  co_return report ? std::move(*report) : refusal;
}

std::vector<node::known_home> node::homes() const {
  std::vector<known_home> out{{options_.address, options_.frontend.home, frontend_}};
  for (const auto& m : members_)
    if (m.member && m.home != 0) out.push_back({m.address, m.home, m.frontend});
  return out;
}

std::vector<node::known_home> node::homes_of(protocols::request_id request, bool by_name) const {
  auto out = homes();
  std::erase_if(out, [&](const known_home& one) {
    return !one.frontend || (!by_name && one.home != protocols::home_of(request));
  });
  return out;
}

// The first at once; what follows it in a burst, as when a thousand processes join, is told together as soon as the
// messages that are there have been read: each telling costs everybody as much as there are instances.
void node::announce() {
  if (announcing_) return; // it will be part of the next one
  constexpr nanoseconds burst = std::chrono::milliseconds(1);
  if (!announced_ || now() - *announced_ >= burst) return announce_now();
  try {
    start(announce_soon());
  } catch (const std::bad_alloc&) { // then not together
    announce_now();
  }
}

task<void> node::announce_soon() {
  announcing_ = true;
  try {
    co_await sleep_for(nanoseconds{0});
  } catch (const std::bad_alloc&) { // likewise: whatever comes of it, nobody may wait for it for ever
  }
  announcing_ = false;
  announce_now();
}

void node::announce_now() {
  announced_ = now();
  ++version_;
  const auto news = view();
  if (frontend_) tell(frontend_, news);
  if (scheduler_) tell(scheduler_, news);
  for (const auto& m : members_)
    if (m.member) tell(m.member, news); // and they their llumlets and front ends
  if (options_.on_topology) tell_watcher(context(), "on_topology", [&] { options_.on_topology(news); });
  if (options_.metrics)
    options_.metrics->members.set(static_cast<double>(
        std::ranges::count_if(members_, [this](const auto& m) { return m.member && is_elsewhere(m.key); })));
}

} // namespace godwit::actors
