#pragma once

#include <godwit/actors/frontend.hpp>
#include <godwit/actors/global_scheduler.hpp>
#include <godwit/actors/instance.hpp>
#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/actors/provisioner.hpp>
#include <godwit/actors/trace_control.hpp>
#include <godwit/protocols/provisioning/provisioning.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/metrics/registry.hpp>
#include <godwit/runtime/version.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::actors {

/// What the head counts of its cluster.
struct cluster_metrics {
  explicit cluster_metrics(runtime::metrics::registry& registry);
  runtime::metrics::gauge& members;
  runtime::metrics::counter& members_lost;
  runtime::metrics::counter& orders_given_up;
  runtime::metrics::family<runtime::metrics::counter>& role_changes; ///< by the new one

  /// The shards of the KV store, for the series `godwit_kv_store_*`.
  void adopt(std::vector<protocols::store_status> stores);
  /// One of them is gone; what it counted is kept.
  void forget(const protocols::store_report& last);
  /// One of those is back, and counts on from there.
  void remember(const protocols::store_report& last);
  /// What they said last, all together, with the counts of those that are gone.
  [[nodiscard]] protocols::store_report stores() const;

private:
  struct stores_told;
  std::shared_ptr<stores_told> stores_;
};

struct node_options {
  std::string version{runtime::version()}; ///< must be equal throughout a cluster
  std::string model;
  std::string address;         ///< of this process, for status
  std::uint32_t instances = 1; ///< of this process; 0 where members bring them all
  std::uint32_t capacity = 0;  ///< instances with ids from 0 on; those beyond `instances` begin stopped
  /// Of this process's instances (protocols::role_at); one more that autoscaling runs here has the last one.
  std::vector<protocols::instance_role> roles;
  model_identity identity; ///< of the served model; members must have the same
  /// Processes in the cluster, and instances that one may bring.
  std::uint32_t members_max = 1024;
  std::uint32_t member_instances_max = 1024;
  std::uint32_t frontends_max = 64; ///< of other processes
  /// Of all members together. The topology goes to other processes in one message, which names 16,384 actors at most.
  std::uint32_t instances_max = 16'000;
  std::chrono::nanoseconds backoff_min{std::chrono::milliseconds(100)};
  std::chrono::nanoseconds backoff_max{std::chrono::seconds(10)};
  /// A child that lived so long is not held to have failed at once: its backoff starts anew.
  std::chrono::nanoseconds settled_after{std::chrono::seconds(30)};
  /// Longest time for an instance to load its model.
  std::chrono::nanoseconds load_timeout{std::chrono::minutes(30)};
  instance_options instance; ///< `id` is filled in
  llumlet_options llumlet;   ///< what says whose it is, and `load_timeout`, are filled in
  scheduler_options scheduler;
  frontend_options frontend;
  /// Where autoscaling gets processes from once there is no stopped instance to start. Null: this process runs one
  /// more instance itself if `provision_here`, otherwise there is none.
  std::shared_ptr<actors::provisioner> provisioner;
  bool provision_here = false;
  std::uint32_t life = 0; ///< of this head, for the names that it orders of the provisioner; with a provisioner whoever
                          ///< makes the head draws it (runtime::entropy()); 0: names come again with the next head
  std::shared_ptr<trace_control> trace; ///< of this process; null: it records nothing
  /// Told every new topology, on the node's context; must only post or store.
  std::function<void(const topology&)> on_topology;
  std::shared_ptr<cluster_metrics> metrics; ///< may be null
  runtime::log::logger log;

  /// Has every part write there, each as a component of its own: node, scheduler, frontend, llumlet, migration and
  /// instance.
  void log_to(const runtime::log::logger& all);

  /// What is wrong with them, in one line, as far as that can be seen before a device is there; empty when they can be
  /// used.
  [[nodiscard]] std::string validate() const;
};

/// The head of a cluster. Spawns front end, scheduler and the member that keeps this process's instances, and restarts
/// those that die, with back-off; takes in members of other processes, and tells everybody who is there.
///
/// A member that ends, leaves or falls silent takes its instances out of the topology; homes then dispatch what they
/// owned elsewhere. Ids of instances belong to a process: one that comes back gets its own again, with higher
/// generations; nobody else ever gets them.
///
/// It carries out what autoscaling wants. One instance more is a stopped one of a process that is there, since its
/// weights are too, or else what the provisioner brings, or a further member in this process: each with ids of its own,
/// so that none need be kept for them. One less is drained, stopped, and its process released to the provisioner. The
/// policies that an operator sets survive the scheduler.
class node final : public runtime::actor<node_interface> {
public:
  node(runtime::actor_context context, node_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "node"; }
  [[nodiscard]] runtime::behavior_of<node_interface> make_behavior() override;
  void on_stop() override;

private:
  static constexpr std::uint64_t own_key = 0; ///< of the member for this process's instances
  /// A process that is, or was, in the cluster.
  struct member_record {
    std::uint64_t key = 0;
    protocols::instance_id first;
    std::uint32_t instances = 0;
    std::uint64_t generation_max = 0; ///< ever announced
    // While it is here:
    runtime::handle<member_interface> member; ///< null: gone
    std::string address;
    std::uint64_t watch = 0;
    std::uint64_t news = 0;
    std::vector<pair_entry> pairs;
    runtime::handle<kv_store_interface> store;    ///< null: it has no shard of the KV store
    std::uint16_t home = 0;                       ///< of its front end; 0: it brings none
    runtime::handle<frontend_interface> frontend; ///< null: it brings none, or not now
    protocols::store_report store_report;         ///< the last one of that
    /// Of when it was here last: a shard outlives its process's membership, and counts on.
    std::optional<protocols::store_report> past_report;
  };
  /// Back-off of one restarting child.
  [[nodiscard]] std::chrono::nanoseconds next_pause(std::chrono::nanoseconds started,
                                                    std::chrono::nanoseconds& backoff);

  void spawn_scheduler();
  void spawn_frontend();
  [[nodiscard]] member_options options_of_member() const;
  void spawn_member();
  runtime::async::task<void> respawn_scheduler(std::chrono::nanoseconds pause);
  runtime::async::task<void> respawn_frontend(std::chrono::nanoseconds pause);
  runtime::async::task<void> respawn_member(std::chrono::nanoseconds pause);

  [[nodiscard]] join_answer admit(const join_cluster& wish);
  [[nodiscard]] std::string refuse(const join_cluster& wish) const;
  /// The number that its front end wants, or the next one that is free.
  [[nodiscard]] std::uint16_t home_for(const join_cluster& wish) const;
  [[nodiscard]] member_record* remember(const join_cluster& wish);
  void take_news(member_news& news);
  void take_news(const store_news& news);
  void forget_store(member_record& m) const;
  void tell_stores() const; ///< to the metrics
  void remove(std::uint64_t key, std::string_view why);
  void leave(std::uint64_t key);
  /// Another process's.
  [[nodiscard]] bool is_elsewhere(std::uint64_t key) const;
  [[nodiscard]] member_record* find_member(std::uint64_t key);

  // node_policies.cpp:
  [[nodiscard]] policy_answer set_policies(const policy_order& order);
  runtime::async::task<protocols::request_history> history(history_query query);

  /// A front end and its process.
  struct known_home {
    std::string node;
    std::uint16_t home = 0;
    runtime::handle<frontend_interface> frontend; ///< null: it is down
  };
  /// The head's first.
  [[nodiscard]] std::vector<known_home> homes() const;
  /// Those that may know the request; of one that has a number, its home.
  [[nodiscard]] std::vector<known_home> homes_of(protocols::request_id request, bool by_name) const;

  // node_scaling.cpp:
  [[nodiscard]] static protocols::provisioning_settings provisioning_of(const node_options& options);
  [[nodiscard]] drain_answer drain(const drain_instance& order);
  /// By its member, which alone knows what it is for.
  runtime::async::task<role_answer> set_role(role_order order);
  runtime::async::task<void> give_role(role_order order);
  void carry_out(role_wish wish);
  void carry_out(scaling_wish wish);
  struct decided {
    bool told = false;   ///< everybody, of the topology
    std::string refusal; ///< empty: none
    bool later = false;  ///< it may be otherwise later
  };
  /// Tells the books what happened, and performs what they want.
  decided decide(const protocols::provisioning::event& what);
  void perform(protocols::provisioning::tell_all& e, decided& out);
  void perform(protocols::provisioning::drain_instance& e, decided& out);
  void perform(protocols::provisioning::start_instance& e, decided& out);
  void perform(protocols::provisioning::order_process& e, decided& out);
  void perform(protocols::provisioning::run_process& e, decided& out);
  void perform(protocols::provisioning::give_back& e, decided& out);
  void perform(protocols::provisioning::end_process& e, decided& out);
  void perform(protocols::provisioning::refuse& e, decided& out);
  void perform(protocols::provisioning::say& e, decided& out);
  runtime::async::task<void> order_process(std::uint64_t order, std::string name);
  void watch_orders();
  runtime::async::task<void> wake_at(std::int64_t when);
  [[nodiscard]] member_record* keeper_of(protocols::instance_id id);

  // node_trace.cpp:
  /// A process that is not this one, by its member.
  struct other_process {
    runtime::handle<member_interface> member;
    std::string address;
  };
  template <class Answer> struct trace_round;
  [[nodiscard]] std::vector<other_process> other_processes() const;
  template <class Order, class Answer>
  runtime::async::task<void> ask_process(other_process whom, Order order, std::shared_ptr<trace_round<Answer>> round,
                                         std::size_t index);
  template <class Order, class Answer> runtime::async::task<std::vector<Answer>> ask_processes(Order order);
  runtime::async::task<trace_answer> set_trace(trace_order order);
  runtime::async::task<dump_answer> dump_trace(dump_order order);
  runtime::async::task<dump_part> read_dump(dump_part_query query);

  void kill(protocols::instance_id id);
  /// The home of the request does it.
  runtime::async::task<protocols::migration_report> migrate(migrate_request order);
  void announce();
  runtime::async::task<void> announce_soon();
  void announce_now();
  [[nodiscard]] topology view() const;

  struct status_round; ///< answers that are still coming in
  /// Refused where too many are being answered.
  runtime::async::task<runtime::async::expected<protocols::cluster_status>> status(bool with_requests);
  runtime::async::task<void> ask_instance(runtime::handle<llumlet_interface> whom, bool with_requests,
                                          std::shared_ptr<status_round> round, std::size_t index);
  runtime::async::task<void> ask_frontend(known_home whom, bool with_requests, std::shared_ptr<status_round> round,
                                          std::size_t index);
  runtime::async::task<void> ask_scheduler(std::shared_ptr<status_round> round);

  node_options options_;
  std::vector<member_record> members_; ///< by their first instance
  std::uint32_t next_instance_ = 0;
  runtime::handle<member_interface> own_member_;
  std::map<std::uint64_t, runtime::handle<member_interface>> further_members_; ///< of this process, by key
  runtime::handle<scheduler_interface> scheduler_;
  runtime::handle<frontend_interface> frontend_;
  std::chrono::nanoseconds scheduler_started_{0}, scheduler_backoff_{0};
  std::chrono::nanoseconds frontend_started_{0}, frontend_backoff_{0};
  std::chrono::nanoseconds member_started_{0}, member_backoff_{0};
  std::uint32_t frontend_restarts_ = 0;
  protocols::provisioning provisioning_;
  std::optional<std::int64_t> watch_; ///< when the next order's time is up
  std::string roles_last_;            ///< wish
  std::string scaling_last_;          ///< wish
  std::uint64_t version_ = 0;
  std::optional<std::chrono::nanoseconds> announced_; ///< when
  bool announcing_ = false;                           ///< soon
  unsigned statuses_ = 0;                             ///< that are being answered
};

} // namespace godwit::actors
