#pragma once

#include <godwit/actors/frontend.hpp>
#include <godwit/actors/instance.hpp>
#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/actors/trace_control.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/version.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::actors {

/// Finds the head: calls `done` once, from any thread, in bounded time. Called on the member's context for every
/// attempt to join, so it must not block there.
using found_head = runtime::async::expected<runtime::handle<node_interface>>;
using head_finder = std::function<void(std::function<void(found_head)> done)>;

/// How it stands with a member.
struct member_state {
  bool joined = false;
  protocols::instance_id first; ///< of its ids; valid once it has joined
  std::uint32_t ready = 0;      ///< instances that take requests
  std::uint64_t joins = 0;      ///< times that it was taken in
  std::uint64_t failures = 0;   ///< attempts to join that failed since it was last joined
  std::string error;            ///< of the last of them
  std::vector<pair_entry> pairs;
  runtime::handle<node_interface> head; ///< null: not joined
};

struct member_options {
  std::string version{runtime::version()}; ///< must be equal throughout a cluster
  std::string address;                     ///< of this process, for status
  /// Drawn at random, once per process. 0 is the head's own member's.
  std::uint64_t key = 0;
  std::uint32_t instances = 1; ///< that run from the start
  std::uint32_t capacity = 0;  ///< instances that it can run; those beyond `instances` wait, stopped, until they are
                               ///< wanted. Less than `instances`: as many
  std::vector<protocols::instance_role> roles; ///< of the instances at first (protocols::role_at)
  model_identity model;
  /// The process takes clients' requests too: `home` and `incarnation` are filled in, `home` from `key`. With it there
  /// may be no instance. Absent: it does not.
  std::optional<frontend_options> frontend;
  /// Told who is there, for a frontend_gate: as the front end hears it, on the member's context; must only post or
  /// store. May be empty.
  std::function<void(const topology&)> on_topology;
  head_finder find_head;
  /// Between two attempts to join; doubles up to the maximum, with no last one.
  std::chrono::nanoseconds rejoin_min{std::chrono::milliseconds(200)};
  std::chrono::nanoseconds rejoin_max{std::chrono::seconds(5)};
  /// For the head's answers.
  std::chrono::nanoseconds ask_timeout{std::chrono::seconds(5)};
  std::chrono::nanoseconds backoff_min{std::chrono::milliseconds(100)};
  std::chrono::nanoseconds backoff_max{std::chrono::seconds(10)};
  /// A pair that lived so long is not held to have failed at once: its back-off starts anew.
  std::chrono::nanoseconds settled_after{std::chrono::seconds(30)};
  /// Longest time for an instance to load its model.
  std::chrono::nanoseconds load_timeout{std::chrono::minutes(30)};
  instance_options instance;            ///< `id` is filled in
  llumlet_options llumlet;              ///< what says whose it is, and `load_timeout`, are filled in
  std::shared_ptr<trace_control> trace; ///< of this process; null: it records nothing
  /// Told every change, on the member's context; must only post or store. May be empty.
  std::function<void(const member_state&)> on_state;
  runtime::log::logger log;
};

/// The pause before the next attempt: `least` after a success, then doubling up to `most`. Never zero.
[[nodiscard]] std::chrono::nanoseconds longer_pause(std::chrono::nanoseconds before, std::chrono::nanoseconds least,
                                                    std::chrono::nanoseconds most);

/// Keeps the instances of one process for a head that may be elsewhere: joins it, spawns a pair of instance and llumlet
/// for each id that the head assigns, restarts those that die, with back-off, and tells the head of every change.
///
/// By order of the head it drains an instance: its llumlet gets rid of the requests, then the pair is stopped and
/// nobody restarts it. A stopped pair runs again when the head says so. After joining anew it is as at the start, but
/// for the roles that instances have been given.
///
/// An instance and its llumlet live and die together: the llumlet's books are about KV that is gone with the instance.
/// A restarted pair has the same id and the next generation; homes see that in the topology and re-dispatch what the
/// old one owned.
///
/// It keeps a front end too, if `frontend` is there, as long as it lives itself: the head's scheduler says where its
/// requests go, and every token comes here. One that loses its head keeps its requests and their clients: each goes on
/// from its prompt and the tokens so far as soon as there is a head with instances again, this one or the next.
///
/// It keeps this process's shard of the KV store as well, if `llumlet.store.bytes` says so, as long as it lives itself:
/// instances and heads come and go, and what a head's clients began is found again by that head.
///
/// A member that loses its head ends its pairs, since nobody waits for their tokens any more, and tries for ever to
/// join again. Pairs belong to one membership: generations only go up, so that nothing of an earlier one can be taken
/// for something of this one.
class member final : public runtime::actor<member_interface> {
public:
  member(runtime::actor_context context, member_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "member"; }
  [[nodiscard]] runtime::behavior_of<member_interface> make_behavior() override;
  void on_stop() override;

private:
  struct pair {
    std::uint64_t generation = 0;
    bool ready = false;
    bool draining = false;
    bool stopped = true;     ///< by order, or a spare one
    std::uint64_t order = 0; ///< of the head, the last one
    protocols::instance_role role = protocols::instance_role::mixed;
    runtime::handle<instance_interface> instance;
    runtime::handle<llumlet_interface> llumlet;
    std::chrono::nanoseconds started{0};
    std::chrono::nanoseconds pause{0};
    std::string error; ///< of the last start, unless it has been ready since
  };

  runtime::async::task<void> join_until_joined();
  /// One attempt.
  runtime::async::task<runtime::async::expected<join_answer>> join();
  void take_up(const join_answer& answer);
  void head_down(std::uint64_t membership, runtime::stop_reason reason);
  runtime::async::task<void> leave();

  [[nodiscard]] protocols::instance_id id_of(std::size_t index) const;
  /// Both or none: what one throws is the end of the other.
  void spawn_pair(std::size_t index);
  /// Or, where that fails, soon.
  void start_pair(std::size_t index);
  /// Within the handler of what it threw.
  void report_unstarted(std::size_t index) const noexcept; ///< within a `catch`
  void stop_pair(pair& p, runtime::stop_reason reason);
  void pair_down(std::size_t index, std::uint64_t generation, runtime::stop_reason reason);
  runtime::async::task<void> respawn_pair(std::size_t index, std::uint64_t membership, std::uint64_t generation,
                                          std::chrono::nanoseconds pause);
  void mark_ready(const instance_ready& news);
  void start_failed(const instance_failed& news);
  void kill(protocols::instance_id id);
  void drain(const drain_instance& order);
  [[nodiscard]] role_answer set_role(const role_order& order);
  void drained(const instance_drained& news);
  void activate(const activate_instance& order);
  void start_stopped(pair& p, protocols::instance_id id);
  /// Null: not one of this member's.
  [[nodiscard]] pair* find_pair(protocols::instance_id id);
  [[nodiscard]] trace_state set_trace(const trace_order& order);
  runtime::async::task<dumped_file> dump_trace(dump_order order);
  runtime::async::task<dump_part> read_dump(dump_part_query query);
  /// To the llumlets; who watches one that is no longer in it hears that it is down.
  void pass_on(const topology& news);
  /// To the head, if there is one, and to `on_state`.
  void tell_state();
  /// Its front end, where it is to have one.
  void spawn_frontend();
  /// Or, where that fails, soon.
  void start_frontend();
  runtime::async::task<void> respawn_frontend();
  void stop_frontend();
  /// By what the head said last; nobody is there without a head that knows it.
  void tell_frontend();
  /// The way to them was by a head that is gone.
  void declare_all_down();
  /// Its shard of the KV store, where it is to have one.
  void spawn_store();
  runtime::async::task<void> respawn_store();

  member_options options_;
  runtime::handle<node_interface> head_; ///< null: not joined
  topology topology_;
  std::vector<pair> pairs_;
  member_state state_;
  std::uint64_t membership_ = 0; ///< counts joins
  std::uint64_t head_watch_ = 0;
  std::uint64_t news_ = 0;
  runtime::handle<kv_store_interface> store_; ///< null: none, or not now
  std::chrono::nanoseconds store_pause_{0};
  protocols::store_report store_report_;         ///< the last one of `store_`
  runtime::handle<frontend_interface> frontend_; ///< null: none, or not now
  std::uint16_t home_ = 0;                       ///< its number
  std::uint32_t frontend_starts_ = 0;
  std::uint64_t frontend_watch_ = 0;
  std::chrono::nanoseconds frontend_pause_{0}, frontend_started_{0};
  std::chrono::nanoseconds head_ahead_{0}; ///< its clock, since ours
  std::chrono::nanoseconds asked_{0};      ///< when the head was asked, the last time
  std::uint64_t told_version_ = 0;         ///< of what it is told: of a head's versions the next one's know nothing
  bool retiring_ = false;
};

} // namespace godwit::actors

/// What was found, or why nothing was; replay needs it.
template <> struct godwit::runtime::trace::recorded_form<godwit::actors::found_head> {
  static void write(wire_writer& out, const actors::found_head& x);
  static actors::found_head read(wire_reader& in);
};
