#pragma once

#include <godwit/actors/frontend.hpp>
#include <godwit/actors/global_scheduler.hpp>
#include <godwit/actors/instance.hpp>
#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/actors/provisioner.hpp>
#include <godwit/runtime/actor.hpp>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::actors {

struct node_options {
  std::string version;
  std::string model;
  std::string address;         ///< of this process, for status
  std::uint32_t instances = 1; ///< of this process; 0 where members bring them all
  std::uint32_t capacity = 0;  ///< instances with ids from 0 on; those beyond `instances` begin stopped
  model_identity identity;     ///< of the served model; members must have the same
  /// Processes in the cluster, and instances that one may bring.
  std::uint32_t members_max = 1024;
  std::uint32_t member_instances_max = 1024;
  std::chrono::nanoseconds backoff_min{std::chrono::milliseconds(100)};
  std::chrono::nanoseconds backoff_max{std::chrono::seconds(10)};
  /// A child that lived so long is not held to have failed at once: its backoff starts anew.
  std::chrono::nanoseconds settled_after{std::chrono::seconds(30)};
  /// Longest time for an instance to load its model.
  std::chrono::nanoseconds load_timeout{std::chrono::minutes(30)};
  instance_options instance; ///< `id` is filled in
  llumlet_options llumlet;   ///< `id`, `generation` and `instance` are filled in
  scheduler_options scheduler;
  frontend_options frontend;
  /// Where autoscaling gets processes from once there is no stopped instance to start. Null: this process runs one
  /// more instance itself if `provision_here`, otherwise there is none.
  std::shared_ptr<actors::provisioner> provisioner;
  bool provision_here = false;
  /// Told every new topology, on the node's context; must only post or store.
  std::function<void(const topology&)> on_topology;
  runtime::log::logger log;
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
    std::chrono::nanoseconds joined{0};
    std::vector<pair_entry> pairs;
  };
  /// An instance that drains, or is stopped, by order.
  struct drain_record {
    bool by_hand = false;
    bool released = false; ///< its process is given back to the provisioner
    bool stopped = false;  ///< it has come to its end
  };
  /// An instance that is not there yet.
  struct provision_order {
    std::uint64_t number = 0;
    std::uint64_t key = 0; ///< of the member in this process that is to bring it; 0: of none
    std::string node;      ///< the process that is to bring it; empty: it is `spare`, a stopped one
    protocols::instance_id spare;
    std::chrono::nanoseconds at{0};
    bool there = false; ///< it is in the topology, but takes no requests yet
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
  [[nodiscard]] member_record* remember(const join_cluster& wish);
  void take_news(member_news& news);
  void remove(std::uint64_t key, std::string_view why);
  [[nodiscard]] member_record* find_member(std::uint64_t key);

  // node_scaling.cpp:
  [[nodiscard]] policy_answer set_policies(const policy_order& order);
  [[nodiscard]] drain_answer drain(const drain_instance& order);
  [[nodiscard]] std::string why_not_drain(protocols::instance_id id) const;
  void begin_drain(protocols::instance_id id, bool by_hand);
  void tell_drain(protocols::instance_id id, bool drains);
  void tell_start(protocols::instance_id id);
  /// What its member said of it is after the last order.
  [[nodiscard]] bool is_news(protocols::instance_id id, const pair_entry& said) const;
  [[nodiscard]] bool drains(protocols::instance_id id, const pair_entry& said) const;
  void end_drain(protocols::instance_id id);
  void carry_out(scaling_wish wish);
  void scale_out();
  void scaling_failed(std::string what);
  [[nodiscard]] std::optional<protocols::instance_id> find_spare() const;
  runtime::async::task<void> await_spare(provision_order order);
  runtime::async::task<void> await_process(provision_order order);
  [[nodiscard]] provision_order* find_order(protocols::instance_id spare);
  [[nodiscard]] provision_order* find_order(const member_record& m);
  void order_here(const provision_order& order);
  void release(std::uint64_t key, const std::string& process, std::optional<protocols::instance_id> instance);
  void give_up(std::uint64_t number, std::string_view why);
  /// What news of a member, or its coming, mean for drains and orders.
  void note_arrival(const member_record& m);
  void note_pair(const member_record& m, protocols::instance_id id, const pair_entry& before, const pair_entry& now_is);
  void note_departure(const member_record& m);
  [[nodiscard]] member_record* keeper_of(protocols::instance_id id);
  [[nodiscard]] const pair_entry* find_pair(protocols::instance_id id) const;
  runtime::async::task<protocols::request_history> history(history_query query);

  void kill(protocols::instance_id id);
  /// The home of the request does it.
  runtime::async::task<protocols::migration_report> migrate(migrate_request order);
  void announce();
  runtime::async::task<void> announce_soon();
  void announce_now();
  [[nodiscard]] topology view() const;

  struct status_round; ///< answers that are still coming in
  runtime::async::task<protocols::cluster_status> status(bool with_requests);
  runtime::async::task<void> ask_instance(runtime::handle<llumlet_interface> whom, bool with_requests,
                                          std::shared_ptr<status_round> round, std::size_t index);
  runtime::async::task<void> ask_frontend(bool with_requests, std::shared_ptr<status_round> round);
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
  std::map<protocols::instance_id, drain_record> drains_;
  std::map<protocols::instance_id, std::uint64_t> ordered_; ///< the last order to its member about it
  std::uint64_t order_numbers_ = 0;
  std::vector<provision_order> orders_; // oldest first
  std::uint64_t orders_total_ = 0, scaled_out_ = 0, scaled_in_ = 0;
  std::string scaling_last_;    ///< wish
  std::string scaling_failure_; ///< why the last wish came to nothing; empty: it did not, or not yet
  std::uint64_t version_ = 0;
  std::optional<std::chrono::nanoseconds> announced_; ///< when
  bool announcing_ = false;                           ///< soon
};

} // namespace godwit::actors
