#pragma once

#include <godwit/actors/frontend.hpp>
#include <godwit/actors/global_scheduler.hpp>
#include <godwit/actors/instance.hpp>
#include <godwit/actors/interfaces.hpp>
#include <godwit/actors/llumlet.hpp>
#include <godwit/runtime/actor.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace godwit::actors {

struct node_options {
  std::string version;
  std::string model;
  std::string address; ///< of this process, for status
  std::uint32_t instances = 1;
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
  /// Told every new topology, on the node's context; must only post or store.
  std::function<void(const topology&)> on_topology;
  runtime::log::logger log;
};

/// Spawns the actors of one process and restarts those that die, with back-off.
///
/// An instance and its llumlet live and die together: the llumlet's books are about KV that is gone with the instance.
/// A restarted pair has the same id and the next generation; homes see that in the topology and re-dispatch what the
/// old one owned.
class node final : public runtime::actor<node_interface> {
public:
  node(runtime::actor_context context, node_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "node"; }
  [[nodiscard]] runtime::behavior_of<node_interface> make_behavior() override;
  void on_stop() override;

private:
  struct pair {
    protocols::instance_id id;
    std::uint64_t generation = 0;
    bool ready = false;
    runtime::handle<instance_interface> instance;
    runtime::handle<llumlet_interface> llumlet;
    std::chrono::nanoseconds started{0};
    std::chrono::nanoseconds backoff{0};
  };
  /// Back-off of one restarting child.
  [[nodiscard]] std::chrono::nanoseconds next_pause(std::chrono::nanoseconds started,
                                                    std::chrono::nanoseconds& backoff);

  void spawn_scheduler();
  void spawn_frontend();
  void spawn_pair(std::size_t index);
  void pair_down(std::size_t index, std::uint64_t generation, runtime::stop_reason reason);
  runtime::async::task<void> respawn_pair(std::size_t index, std::chrono::nanoseconds pause);
  runtime::async::task<void> respawn_scheduler(std::chrono::nanoseconds pause);
  runtime::async::task<void> respawn_frontend(std::chrono::nanoseconds pause);
  void mark_ready(const instance_ready& news);
  void kill(protocols::instance_id id);
  void announce();
  [[nodiscard]] topology view() const;
  runtime::async::task<protocols::cluster_status> status(bool with_requests);

  node_options options_;
  std::vector<pair> pairs_;
  runtime::handle<scheduler_interface> scheduler_;
  runtime::handle<frontend_interface> frontend_;
  std::chrono::nanoseconds scheduler_started_{0}, scheduler_backoff_{0};
  std::chrono::nanoseconds frontend_started_{0}, frontend_backoff_{0};
  std::uint32_t frontend_restarts_ = 0;
  std::uint64_t version_ = 0;
};

} // namespace godwit::actors
