#pragma once

#include <godwit/actors/node.hpp>
#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/gpu/sim/sim_adapters.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/runtime/sim/network.hpp>
#include <godwit/transport/sim/disk.hpp>
#include <godwit/transport/sim/network.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

namespace godwit::explore {

/// What a cluster is built from.
struct shape {
  std::uint32_t head_instances = 0;
  std::vector<std::uint32_t> machines;    ///< instances of each further one
  std::uint32_t fronts = 0;               ///< so many of these, from the first on, bring a front end, too
  std::uint32_t blocks = 64;              ///< of each instance
  std::uint32_t devices = 1;              ///< of every other instance; the rest have one
  std::uint32_t stages = 1;               ///< of those; the first one's device is faster
  std::chrono::nanoseconds layer_move{0}; ///< that layers take from stage to stage
  gpu::sim::latency_model latency;
  std::chrono::nanoseconds load_time{0}; ///< of a model
  runtime::sim::link_settings links;     ///< of control messages
  runtime::sim::detection_settings detection;
  transport::sim::settings fabric;          ///< of blocks
  gpu::sim::sim_adapters_settings adapters; ///< of each process
  gpu::sim::sim_swap swap;                  ///< of each instance
  transport::sim::disk_settings disk;       ///< of each process, where it has a shard of the KV store; 0 slots: none
  std::uint32_t disk_fails_every = 0;       ///< the so-many-th read or write of a process fails; 0: none does
  double draft_right = -1;                  ///< how often the draft model's tokens are right; below 0: there is none
  std::uint32_t swap_fails_every = 0;       ///< the so-many-th copy of an instance comes to nothing; 0: none does
  std::chrono::nanoseconds rejoin_min{std::chrono::milliseconds(20)};
  std::chrono::nanoseconds rejoin_max{std::chrono::milliseconds(500)};
  std::chrono::nanoseconds order_time{std::chrono::milliseconds(100)}; ///< from an order of autoscaling to its process
  /// Settings of production. Filled in by the cluster: identity, how instances are made, the fabric, the provisioner.
  /// `roles` are those of the head; every further machine begins one further in them, and goes round.
  actors::node_options node;

  // What then may become of requests, with the reason in the error.
  bool may_overload = false;      ///< queues are small
  bool may_time_out = false;      ///< little time for an answer
  bool may_be_rejected = false;   ///< where its objectives are out of reach
  bool may_not_be_placed = false; ///< little time to place a request
  bool may_run_twice = false;     ///< for a while: an instance that accepts too late is not believed
  bool may_give_up = false;       ///< few attempts, or instances that fail again and again
};

/// Bytes that a block shows the fabric.
[[nodiscard]] std::uint64_t block_bytes_of(const shape& s);

/// The shape of all scenarios before any of its settings is drawn: bounds that fit virtual times, so that a fault costs
/// tens of steps and not minutes.
[[nodiscard]] shape usual_shape();

/// A setting with two extreme values, each of which a cluster must bear.
struct knob {
  const char* name;
  void (*set)(shape& s, bool high);
  bool of_scaling = false; ///< nothing comes of it where the cluster does not scale
};
[[nodiscard]] const std::vector<knob>& knobs();

} // namespace godwit::explore
