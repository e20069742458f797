#pragma once

#include <godwit/actors/cluster.hpp>
#include <godwit/actors/node.hpp>
#include <godwit/gpu/sim/profile.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/runtime/trace/recorder.hpp>
#include <godwit/transport/sim/network.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace godwit::actors::sim {

/// Records a run, and stores what was recorded while it goes on, since a recorder keeps the last events only. Recording
/// changes nothing in the run.
class run_recorder {
public:
  run_recorder() = default;
  run_recorder(const run_recorder&) = delete;
  run_recorder& operator=(const run_recorder&) = delete;
  virtual ~run_recorder() = default;
  /// Once, before the first actor. The clock is gone when the cluster is.
  [[nodiscard]] virtual std::shared_ptr<runtime::trace::recorder> begin(const runtime::clock& clock) = 0;
  /// Every `steps_per_pump` steps, and last of all when every actor is gone.
  virtual void pump() = 0;
  static constexpr std::uint64_t steps_per_pump = 512;
};

struct simulated_cluster_options {
  std::uint64_t seed = 0;
  std::uint32_t instances = 1; ///< from the start, ready at once
  gpu::sim::profile device;    ///< of every instance
  /// What `godwit serve` would be told. Filled in: version, model, identity, how instances are made, the fabric and the
  /// provisioner. A KV byte of the settings (migration.portion_bytes) is one of the device, as in reality.
  node_options node;
  std::shared_ptr<run_recorder> recorder; ///< null: nobody records
};

/// Longest prompt plus answer, in tokens: what the model, the pool of an instance and the settings allow.
[[nodiscard]] std::uint32_t context_length_of(const simulated_cluster_options& options);

/// How many instances there are, and what they have cost.
struct instance_books {
  std::uint32_t present = 0; ///< not stopped; they may be loading, or draining
  std::uint32_t ready = 0;   ///< take requests
  std::uint32_t ordered = 0; ///< by autoscaling, and not there yet
  double paid_s = 0;         ///< instance-seconds until now: from the order, or the start, to the end
};

/// A cluster of the production actors in a world of its own, on devices and links that a profile describes.
///
/// Each instance is a process of its own with its own link, so that requests migrate between any two. Autoscaling
/// works: the processes that it orders start in the profile's start time. Messages between actors take no time; steps
/// and KV transfers do.
class simulated_cluster {
public:
  explicit simulated_cluster(simulated_cluster_options options);
  simulated_cluster(const simulated_cluster&) = delete;
  simulated_cluster& operator=(const simulated_cluster&) = delete;
  ~simulated_cluster();

  [[nodiscard]] runtime::sim::world& world() noexcept { return world_; }
  [[nodiscard]] cluster& actors() noexcept { return *cluster_; }
  /// Runs until every instance takes requests. False: that is never so.
  [[nodiscard]] bool start();
  /// As world().run_until, which does not store what is recorded.
  bool run_until(const std::function<bool()>& condition, std::uint64_t steps_max = ~std::uint64_t{0});
  /// From now on instance-seconds count anew.
  void reset_costs();
  [[nodiscard]] instance_books books() const;
  /// The instances that are there, in the order of their ids.
  [[nodiscard]] const std::vector<protocols::instance_id>& present() const noexcept { return present_; }
  /// What the runtime complained about, the first few lines; empty in a run without a bug.
  [[nodiscard]] const std::vector<std::string>& complaints() const noexcept { return complaints_; }

private:
  class processes;
  void adopt(const topology& news);
  void start_process(const std::string& name);
  void stop_process(const std::string& name);
  [[nodiscard]] node_options filled_in(node_options node, std::uint32_t context);

  simulated_cluster_options options_;
  runtime::sim::world world_;
  transport::sim::network network_;
  runtime::async::counter_random random_; ///< for the phases of the instances' reports
  std::vector<std::string> complaints_;
  std::unique_ptr<runtime::sim::system> system_;
  std::unique_ptr<cluster> cluster_;
  std::map<std::string, runtime::handle<member_interface>> members_; ///< by name
  node_options made_of_;                                             ///< what processes are made of
  bool started_ = false;                                             ///< instances load from now on
  std::uint64_t keys_ = 0;
  std::vector<protocols::instance_id> present_;
  instance_books books_;
  std::chrono::nanoseconds counted_{0}; ///< until when they are
};

/// The link of a profile, for blocks of a simulated executor.
[[nodiscard]] transport::sim::settings network_of(const gpu::sim::profile& device);

} // namespace godwit::actors::sim
