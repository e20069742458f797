#pragma once

#include <godwit/actors/answer_sink.hpp>
#include <godwit/actors/membership.hpp>
#include <godwit/actors/migration_messages.hpp>
#include <godwit/actors/policy_messages.hpp>
#include <godwit/actors/trace_messages.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/protocols/batching/step.hpp>
#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/kv_store.hpp>
#include <godwit/protocols/messages/load.hpp>
#include <godwit/protocols/messages/request.hpp>
#include <godwit/protocols/messages/status.hpp>
#include <godwit/protocols/messages/tokens.hpp>
#include <godwit/runtime/interface.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

/// What the actors understand. A custom topology may put an actor of its own wherever the interface fits.
namespace godwit::actors {

struct instance_interface;
struct shard_interface;
struct llumlet_interface;
struct kv_store_interface;
struct scheduler_interface;
struct home_interface;
struct frontend_interface;
struct node_interface;

/// One instance as the head announces it.
struct instance_entry {
  protocols::instance_id instance;
  std::uint64_t generation = 0; ///< raised with every restart; 0: never started
  bool ready = false;
  bool draining = false; ///< takes no requests
  protocols::instance_role role = protocols::instance_role::mixed;
  runtime::handle<llumlet_interface> llumlet;

  instance_entry() = default;
  instance_entry(protocols::instance_id id, std::uint64_t raised, bool takes_requests,
                 runtime::handle<llumlet_interface> owner)
      : instance(id), generation(raised), ready(takes_requests), llumlet(std::move(owner)) {}
  auto fields() { return std::tie(instance, generation, ready, draining, role, llumlet); }
  [[nodiscard]] bool takes_requests() const noexcept { return ready && !draining && llumlet; }
};

/// The entries of a topology. Everybody keeps one, of as many entries as there are instances; copies within a process
/// share them, so that all of them together stay linear.
class instance_list {
public:
  using entries = std::vector<instance_entry>;

  instance_list() = default;
  instance_list(entries all) : all_(std::make_shared<const entries>(std::move(all))) {}

  [[nodiscard]] const entries& all() const noexcept {
    static const entries none;
    return all_ ? *all_ : none;
  }
  [[nodiscard]] auto begin() const noexcept { return all().begin(); }
  [[nodiscard]] auto end() const noexcept { return all().end(); }
  [[nodiscard]] std::size_t size() const noexcept { return all().size(); }
  [[nodiscard]] bool empty() const noexcept { return all().empty(); }
  [[nodiscard]] const instance_entry& operator[](std::size_t place) const noexcept { return all()[place]; }
  /// Entries of its own, to be changed before the list is copied again.
  [[nodiscard]] entries& edit() {
    auto own = std::make_shared<entries>(all());
    auto& out = *own;
    all_ = std::move(own);
    return out;
  }

private:
  std::shared_ptr<const entries> all_;
};

} // namespace godwit::actors

/// As the vector.
template <> struct godwit::runtime::wire_format<godwit::actors::instance_list> {
  static void write(wire_writer& out, const actors::instance_list& x) { wire_write(out, x.all()); }
  static void read(wire_reader& in, actors::instance_list& x) {
    actors::instance_list::entries all;
    wire_read(in, all);
    x = std::move(all);
  }
};

namespace godwit::actors {

/// One shard of the KV store. Chunks find theirs by its id (protocols::shard_of), which stays with its process.
struct store_entry {
  std::uint64_t id = 0;
  runtime::handle<kv_store_interface> shard;
  store_entry() = default;
  store_entry(std::uint64_t which, runtime::handle<kv_store_interface> who) : id(which), shard(std::move(who)) {}
  friend bool operator==(const store_entry&, const store_entry&) = default;
  auto fields() { return std::tie(id, shard); }
};

/// The front end of a process that has joined the head.
struct frontend_entry {
  std::uint16_t home = 0; ///< its number (protocols::home_of), which no other front end of the cluster has
  runtime::handle<frontend_interface> frontend;
  frontend_entry() = default;
  frontend_entry(std::uint16_t number, runtime::handle<frontend_interface> who)
      : home(number), frontend(std::move(who)) {}
  friend bool operator==(const frontend_entry&, const frontend_entry&) = default;
  auto fields() { return std::tie(home, frontend); }
};

/// Who is there. The node tells it to everybody whenever it changes; an older version never replaces a newer one.
struct topology {
  std::uint64_t version = 0;
  instance_list instances; ///< by id; without those that are stopped by order
  runtime::handle<scheduler_interface> scheduler;
  runtime::handle<frontend_interface> frontend; ///< the head's; for clients of another process: that process's own
  std::uint32_t ordered = 0;       ///< instances that autoscaling has ordered and that are not among these yet
  bool ends = false;               ///< the head was told to end: no instance comes any more
  bool hands_over = true;          ///< prefill instances do, by the policies in force; where not, all are as mixed
  std::vector<store_entry> stores; ///< by id; at most kv_store_settings::shards_max
  std::vector<frontend_entry> frontends; ///< of other processes, by home; at most node_options::frontends_max
  /// What the head's clock shows beyond that of a front end's own process, to which its member says so: arrivals of all
  /// homes are told by that clock, or queues would go by the ages of processes.
  std::int64_t ahead_ns = 0;

  topology() = default;
  [[nodiscard]] const instance_entry* find(protocols::instance_id id) const noexcept {
    const auto at = std::lower_bound(instances.begin(), instances.end(), id,
                                     [](const instance_entry& e, protocols::instance_id i) { return e.instance < i; });
    return at != instances.end() && at->instance == id ? &*at : nullptr;
  }
  auto fields() {
    return std::tie(version, instances, scheduler, frontend, ordered, ends, hands_over, stores, frontends, ahead_ns);
  }
};

/// Asks an instance to get its model ready; answered when it is.
struct load_model {
  load_model() noexcept {}
  auto fields() { return std::tie(); }
};

/// What an instance offers once its model is loaded. Stays in its process.
struct instance_facts {
  std::string device;
  std::string kv_layout; ///< equal where blocks can be copied from one instance to another
  std::uint32_t blocks = 0;
  std::uint32_t positions_max = 0;
  std::uint32_t vocabulary = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t weight_bytes = 0;
  std::vector<protocols::token_id> eos;    ///< the model's end-of-sequence tokens
  bool drafts = false;                     ///< a draft model is there
  std::uint32_t steps_max = 1;             ///< that it takes at once
  std::shared_ptr<gpu::executor> executor; ///< for its KV memory; steps are the instance's business

  instance_facts() = default;
};

/// A request on its way to an instance, with the home that wants its tokens.
struct generate_order {
  protocols::generate_request request;
  runtime::handle<home_interface> home;
  std::uint64_t dispatch = 0; ///< the decision's number; 0: it was none of the scheduler's

  generate_order() = default;
  generate_order(protocols::generate_request what, runtime::handle<home_interface> wanted_by)
      : request(std::move(what)), home(std::move(wanted_by)) {}
  auto fields() { return std::tie(request, home, dispatch); }
};

/// Which instance should run a request of this size?
struct dispatch_query {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t answer_tokens_max = 0;
  std::int32_t priority = 0;
  std::uint8_t execution_level = 0;
  std::int64_t arrival_ns = 0; ///< of the request at its home, by the head's clock
  std::uint16_t home = 0;
  /// The last decision for this request, which came to nothing: it did not get there. 0: none, or it did.
  std::uint64_t failed = 0;
  protocols::instance_id failed_at;
  bool refused = false; ///< it got there, and had no place
  /// Its prompt's beginnings (kv/prefix_marks.hpp), for who looks where their KV may be.
  std::vector<protocols::block_hash> prefix;
  protocols::latency_objectives objectives;
  /// What its place in a queue depends on besides (batching/queue_order.hpp).
  bool begun = false;                ///< a part of its answer is there
  std::uint32_t expected_tokens = 0; ///< of the whole answer; 0: nobody knows
  std::int64_t ttft_ns = 0;          ///< objective, from its arrival; 0: none
  // For policies of an embedder's:
  protocols::request_id request;
  std::uint64_t adapter = 0; ///< adapter_ref::id; 0: none
  std::uint64_t salt = 0;    ///< generate_request::cache_salt

  dispatch_query() = default;
  dispatch_query(std::uint32_t prompt, std::uint32_t answer_max, std::int32_t level)
      : prompt_tokens(prompt), answer_tokens_max(answer_max), priority(level) {}
  auto fields() {
    return std::tie(prompt_tokens, answer_tokens_max, priority, execution_level, arrival_ns, home, failed, failed_at,
                    refused, prefix, objectives, begun, expected_tokens, ttft_ns, request, adapter, salt);
  }
};

struct dispatch_decision {
  bool found = false;       ///< false: no instance takes requests
  bool overloaded = false;  ///< and that is because every queue is full
  bool stale = false;       ///< and that is because the scheduler has no fresh news: dispatch without it
  bool late = false;        ///< and that is because none is expected to meet its objectives: of who comes closest,
  std::int64_t ttft_ns = 0; ///< these are
  std::int64_t tpot_ns = 0;
  protocols::instance_id instance;
  std::uint64_t generation = 0;
  /// To be given to the instance with the request, whose reports then say whether they count it. Counts up, also from
  /// one scheduler to the next.
  std::uint64_t number = 0;
  protocols::dispatch_reason why;

  dispatch_decision() = default;
  dispatch_decision(protocols::instance_id id, std::uint64_t raised) : found(true), instance(id), generation(raised) {}
  auto fields() {
    return std::tie(found, overloaded, stale, late, ttft_ns, tpot_ns, instance, generation, number, why);
  }
};

/// For `godwit status` and tests.
struct status_query {
  bool with_requests = false;
  status_query() noexcept {}
  explicit status_query(bool requests) noexcept : with_requests(requests) {}
  auto fields() { return std::tie(with_requests); }
};

/// Says that the head's process was told to end: what runs is finished, and nobody comes any more.
struct end_notice {
  end_notice() noexcept {}
  auto fields() { return std::tie(); }
};

/// For embedders and tests: who is there now?
struct topology_query {
  topology_query() noexcept {}
  auto fields() { return std::tie(); }
};

/// What a request's client calls it.
struct request_name {
  protocols::request_id request;
  std::string client_id;
  request_name() = default;
  request_name(protocols::request_id id, std::string name) : request(id), client_id(std::move(name)) {}
  auto fields() { return std::tie(request, client_id); }
};

struct frontend_counts {
  std::uint64_t open = 0;
  std::uint64_t finished_total = 0;
  std::uint64_t failed_total = 0;
  std::uint64_t redispatches_total = 0;
  std::uint64_t moves_total = 0;   ///< changes of owner by live migration
  std::vector<request_name> names; ///< of the open requests; empty unless asked for
  frontend_counts() = default;
  auto fields() { return std::tie(open, finished_total, failed_total, redispatches_total, moves_total, names); }
};

/// What the scheduler has dispatched to an instance and no report of it counts yet.
struct dispatched_load {
  protocols::instance_id instance;
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0;
  std::int64_t headroom = 0; ///< blocks more than the report says
  dispatched_load() = default;
  auto fields() { return std::tie(instance, requests, blocks, headroom); }
};

struct scheduler_view {
  protocols::scheduling_status scheduling;
  std::vector<protocols::load_report> reports;
  std::vector<dispatched_load> under_way; ///< only where there is something
  scheduler_view() = default;
  auto fields() { return std::tie(scheduling, reports, under_way); }
};

/// A member's shard of the KV store, for the head.
struct store_news {
  std::uint64_t key = 0; ///< the member's
  protocols::store_report report;
  store_news() noexcept = default;
  store_news(std::uint64_t process_key, const protocols::store_report& figures) noexcept
      : key(process_key), report(figures) {}
  auto fields() { return std::tie(key, report); }
};

/// Kills an instance as a failure would, for drills: its KV and its batch are lost, its requests are re-dispatched.
struct kill_instance {
  protocols::instance_id instance;
  kill_instance() = default;
  explicit kill_instance(protocols::instance_id id) : instance(id) {}
  auto fields() { return std::tie(instance); }
};

/// A request from a client of this process. Stays on its node.
struct submit_request {
  std::shared_ptr<submission> what;
  submit_request() = default;
  explicit submit_request(std::shared_ptr<submission> s) : what(std::move(s)) {}
};

/// The client behind a sink went away. Stays on its node.
struct withdraw_request {
  std::shared_ptr<answer_sink> sink;
  withdraw_request() = default;
  explicit withdraw_request(std::shared_ptr<answer_sink> s) : sink(std::move(s)) {}
};

/// Runs steps on a device.
struct instance_interface
    : runtime::interface<instance_facts(load_model), protocols::step_output(protocols::step_input)> {};

/// Runs steps on one of the devices that an instance has.
struct shard_interface : runtime::interface<protocols::step_output(protocols::step_input)> {};

/// Owns the requests of one instance.
struct llumlet_interface
    : runtime::interface<protocols::admission(generate_order), void(protocols::cancel_request), void(topology),
                         protocols::instance_status(status_query),
                         // migrations: orders, and what the other side wants
                         protocols::migration_report(migrate_order), migration_opened(open_migration),
                         // of its own coordinators
                         look_answer(look_order), park_answer(park_order), void(resume_order), void(release_order),
                         settle_answer(settle_order), void(migration_news), void(source_ended),
                         reserve_answer(reserve_order), void(return_order), adopt_answer(adopt_order),
                         // scheduling
                         void(migration_mark), void(drain_order), void(role_order)> {};

/// Keeps KV of prefixes: one shard of the KV store.
struct kv_store_interface
    : runtime::interface<protocols::store_found(protocols::store_look),
                         protocols::store_fetched(protocols::store_fetch),
                         protocols::store_room(protocols::store_offer), void(protocols::store_settled)> {};

/// Hears how a shard stands.
struct store_keeper_interface : runtime::interface<void(protocols::store_report)> {};

/// Picks instances; knows load reports, never requests.
struct scheduler_interface
    : runtime::interface<void(protocols::load_report), dispatch_decision(dispatch_query), void(topology),
                         scheduler_view(status_query), void(scheduling_policies)> {};

/// Where a request's tokens go: its home, which also decides who owns it.
struct home_interface
    : runtime::interface<void(protocols::token_updates), protocols::move_prepared(protocols::prepare_move),
                         protocols::claim_answer(protocols::claim_request),
                         protocols::reclaim_answer(protocols::reclaim_request), void(protocols::disown_request),
                         void(protocols::migration_report)> {};

/// The home of the requests that its clients submit.
struct frontend_interface
    : home_interface::extend<void(submit_request), void(withdraw_request), void(topology),
                             frontend_counts(status_query), protocols::migration_report(migrate_request),
                             protocols::request_history(history_query)> {};

/// The head of a cluster: front end, scheduler, and the members who bring the instances.
struct node_interface
    : runtime::interface<protocols::cluster_status(status_query), void(kill_instance), topology(topology_query),
                         protocols::migration_report(migrate_request), join_answer(join_cluster), void(member_news),
                         void(leave_cluster), void(end_notice),
                         // scheduling
                         policy_answer(policy_order), protocols::request_history(history_query),
                         drain_answer(drain_instance), void(scaling_wish), role_answer(role_order), void(role_wish),
                         // recording
                         trace_answer(trace_order), dump_answer(dump_order), dump_part(dump_part_query),
                         // the KV store
                         void(store_news)> {};

/// Supervises the instances of one process, for a head that may be elsewhere.
struct member_interface
    : pair_keeper_interface::extend<void(kill_instance), void(topology), void(retire), void(activate_instance),
                                    void(drain_instance), role_answer(role_order),
                                    // recording, of its process
                                    trace_state(trace_order), dumped_file(dump_order), dump_part(dump_part_query),
                                    // of its shard of the KV store
                                    void(protocols::store_report)> {};

} // namespace godwit::actors

// What comes from clients: replay needs it, with somebody in the client's place.
template <> struct godwit::runtime::trace::recorded_form<godwit::actors::submit_request> {
  static void write(wire_writer& out, const actors::submit_request& x);
  static actors::submit_request read(wire_reader& in);
};
template <> struct godwit::runtime::trace::recorded_form<godwit::actors::withdraw_request> {
  static void write(wire_writer& out, const actors::withdraw_request& x);
  static actors::withdraw_request read(wire_reader& in);
};

GODWIT_LOCAL_MESSAGE(godwit::actors::instance_facts)
GODWIT_LOCAL_MESSAGE(godwit::actors::submit_request)
GODWIT_LOCAL_MESSAGE(godwit::actors::withdraw_request)

/// The messages of these interfaces, which messages.cpp describes.
#define GODWIT_ACTOR_MESSAGES(X)                                                                                       \
  X(godwit::actors::activate_instance)                                                                                 \
  X(godwit::actors::adopt_answer)                                                                                      \
  X(godwit::actors::adopt_order)                                                                                       \
  X(godwit::actors::commit_move)                                                                                       \
  X(godwit::actors::dispatch_decision)                                                                                 \
  X(godwit::actors::dispatch_query)                                                                                    \
  X(godwit::actors::drain_answer)                                                                                      \
  X(godwit::actors::drain_instance)                                                                                    \
  X(godwit::actors::drain_order)                                                                                       \
  X(godwit::actors::dump_answer)                                                                                       \
  X(godwit::actors::dump_order)                                                                                        \
  X(godwit::actors::dump_part)                                                                                         \
  X(godwit::actors::dump_part_query)                                                                                   \
  X(godwit::actors::dumped_file)                                                                                       \
  X(godwit::actors::end_notice)                                                                                        \
  X(godwit::actors::frontend_counts)                                                                                   \
  X(godwit::actors::generate_order)                                                                                    \
  X(godwit::actors::history_query)                                                                                     \
  X(godwit::actors::instance_drained)                                                                                  \
  X(godwit::actors::instance_facts)                                                                                    \
  X(godwit::actors::instance_failed)                                                                                   \
  X(godwit::actors::instance_ready)                                                                                    \
  X(godwit::actors::join_answer)                                                                                       \
  X(godwit::actors::join_cluster)                                                                                      \
  X(godwit::actors::kill_instance)                                                                                     \
  X(godwit::actors::landed_news)                                                                                       \
  X(godwit::actors::leave_cluster)                                                                                     \
  X(godwit::actors::load_model)                                                                                        \
  X(godwit::actors::look_answer)                                                                                       \
  X(godwit::actors::look_order)                                                                                        \
  X(godwit::actors::member_news)                                                                                       \
  X(godwit::actors::migrate_order)                                                                                     \
  X(godwit::actors::migrate_request)                                                                                   \
  X(godwit::actors::migration_mark)                                                                                    \
  X(godwit::actors::migration_news)                                                                                    \
  X(godwit::actors::migration_opened)                                                                                  \
  X(godwit::actors::open_migration)                                                                                    \
  X(godwit::actors::park_answer)                                                                                       \
  X(godwit::actors::park_order)                                                                                        \
  X(godwit::actors::policy_answer)                                                                                     \
  X(godwit::actors::policy_order)                                                                                      \
  X(godwit::actors::release_order)                                                                                     \
  X(godwit::actors::request_gone)                                                                                      \
  X(godwit::actors::reserve_answer)                                                                                    \
  X(godwit::actors::reserve_order)                                                                                     \
  X(godwit::actors::resume_order)                                                                                      \
  X(godwit::actors::retire)                                                                                            \
  X(godwit::actors::return_order)                                                                                      \
  X(godwit::actors::role_answer)                                                                                       \
  X(godwit::actors::role_order)                                                                                        \
  X(godwit::actors::role_wish)                                                                                         \
  X(godwit::actors::scaling_wish)                                                                                      \
  X(godwit::actors::scheduler_view)                                                                                    \
  X(godwit::actors::scheduling_policies)                                                                               \
  X(godwit::actors::settle_answer)                                                                                     \
  X(godwit::actors::settle_order)                                                                                      \
  X(godwit::actors::source_ended)                                                                                      \
  X(godwit::actors::status_query)                                                                                      \
  X(godwit::actors::store_news)                                                                                        \
  X(godwit::actors::submit_request)                                                                                    \
  X(godwit::actors::topology)                                                                                          \
  X(godwit::actors::topology_query)                                                                                    \
  X(godwit::actors::trace_answer)                                                                                      \
  X(godwit::actors::trace_order)                                                                                       \
  X(godwit::actors::trace_state)                                                                                       \
  X(godwit::actors::withdraw_request)                                                                                  \
  X(godwit::protocols::abort_migration)                                                                                \
  X(godwit::protocols::admission)                                                                                      \
  X(godwit::protocols::cancel_request)                                                                                 \
  X(godwit::protocols::claim_answer)                                                                                   \
  X(godwit::protocols::claim_request)                                                                                  \
  X(godwit::protocols::cluster_status)                                                                                 \
  X(godwit::protocols::commit_answer)                                                                                  \
  X(godwit::protocols::disown_request)                                                                                 \
  X(godwit::protocols::instance_status)                                                                                \
  X(godwit::protocols::load_report)                                                                                    \
  X(godwit::protocols::migration_report)                                                                               \
  X(godwit::protocols::move_prepared)                                                                                  \
  X(godwit::protocols::pre_alloc)                                                                                      \
  X(godwit::protocols::pre_alloc_answer)                                                                               \
  X(godwit::protocols::prepare_move)                                                                                   \
  X(godwit::protocols::reclaim_answer)                                                                                 \
  X(godwit::protocols::reclaim_request)                                                                                \
  X(godwit::protocols::request_history)                                                                                \
  X(godwit::protocols::step_input)                                                                                     \
  X(godwit::protocols::step_output)                                                                                    \
  X(godwit::protocols::store_fetch)                                                                                    \
  X(godwit::protocols::store_fetched)                                                                                  \
  X(godwit::protocols::store_found)                                                                                    \
  X(godwit::protocols::store_look)                                                                                     \
  X(godwit::protocols::store_offer)                                                                                    \
  X(godwit::protocols::store_report)                                                                                   \
  X(godwit::protocols::store_room)                                                                                     \
  X(godwit::protocols::store_settled)                                                                                  \
  X(godwit::protocols::token_updates)
GODWIT_ACTOR_MESSAGES(GODWIT_DESCRIBED_ELSEWHERE)
