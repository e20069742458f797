#pragma once

#include <godwit/actors/cluster.hpp>
#include <godwit/actors/node.hpp>
#include <godwit/actors/sim/faults.hpp>
#include <godwit/gpu/sim/central_scheduler.hpp>
#include <godwit/gpu/sim/latency_model.hpp>
#include <godwit/gpu/sim/profile.hpp>
#include <godwit/gpu/sim/step_books.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/runtime/trace/recorder.hpp>
#include <godwit/transport/sim/network.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
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

/// Only of a cluster of separate processes: what lies between them, as far as a profile does not say it.
struct process_settings {
  runtime::sim::link_settings links;                            ///< of messages between actors
  runtime::sim::detection_settings detection;                   ///< of peers that say nothing
  std::chrono::nanoseconds rejoin_max{std::chrono::seconds(5)}; ///< between two attempts to join the head
};

/// How many layers each stage of each instance has by now, and how often some have moved.
struct layer_books {
  std::map<protocols::instance_id, std::vector<std::uint32_t>> by_stage;
  std::uint64_t moves = 0;
};

struct simulated_cluster_options {
  std::uint64_t seed = 0;
  std::uint32_t instances = 1; ///< from the start, ready at once
  gpu::sim::profile device;    ///< of every instance
  /// How long a step takes on an instance, where that is another thing than what the profile says of it (`usual`): a
  /// latency model of your own, or instances of different devices. A function of its arguments alone, or equal seeds
  /// are not equal runs; its step_input is valid while it is called. Of instances of one stage, and not of the draft
  /// model. May be empty.
  std::function<std::chrono::nanoseconds(protocols::instance_id, const protocols::step_input& step,
                                         std::chrono::nanoseconds usual)>
      step_time;
  /// Devices of which each instance has its layers, evenly; each takes its share of the profile's times. What goes
  /// from one to the next takes no time. At most as many as the model has layers.
  std::uint32_t stages = 1;
  std::vector<double> stage_speeds; ///< beside the profile's; empty: all have it
  /// Of each instance's host, for the KV of preempted requests, at the device's link.host_bytes_per_second. 0: none.
  std::uint64_t swap_bytes = 0;
  /// Below the memory of each process's shard of the KV store, where it has one. 0: none.
  std::uint64_t disk_bytes = 0;
  double disk_bytes_per_second = 3e9;
  /// About how often a drafted token is right, of prompt lookup or of the draft model, from 0 to 1.
  double draft_acceptance = 0;
  /// The draft model, beside each instance's, with as many KV blocks; the node's planner says how many tokens it
  /// drafts. Absent: none.
  std::optional<gpu::sim::profile> draft;
  /// Plans the steps of all instances, from now on; of instances of one stage each and without a draft model. Absent:
  /// each plans its own, and that takes no time.
  std::optional<gpu::sim::central_scheduler> central;
  /// What `godwit serve` would be told. Filled in: version, model, identity and address, how instances are made and how
  /// many, the fabric and the provisioner; `members_max`, `instances_max` and `load_timeout` are raised where they
  /// would be in the way, and an unset `migration.settings.copy_share` is that of a device's copy engines. Functions of
  /// yours are called as always. A KV byte of the settings (migration.portion_bytes) is one of the device, as in
  /// reality.
  node_options node;
  std::shared_ptr<run_recorder> recorder; ///< null: nobody records
  /// Each instance is a process of its own, which can fail, with links that can break. Otherwise all actors live in one
  /// system: the same to look at where nothing fails, and quicker.
  bool separate = false;
  process_settings processes;
};

/// Longest prompt plus answer, in tokens: what the model, the pool of an instance and the settings allow.
[[nodiscard]] std::uint32_t context_length_of(const simulated_cluster_options& options);

/// How many instances there are, and what they have cost.
struct instance_books {
  std::uint32_t present = 0; ///< not stopped, and their process there; they may be loading, or draining
  std::uint32_t ready = 0;   ///< take requests: none does while the head stands still
  std::uint32_t ordered = 0; ///< by autoscaling, and not there yet
  std::uint32_t most = 0;    ///< present and ordered, at once
  double paid_s = 0;         ///< instance-seconds until now: from the order, or the start, to the end
  // Until now, added up over the instances:
  std::chrono::nanoseconds wanted_time{0}; ///< of all that were started and not released, down or not
  std::chrono::nanoseconds ready_time{0};  ///< in which the head let requests to them
  // And not:
  std::chrono::nanoseconds none_time{0}; ///< in which no instance took requests
};

/// Steps that only decode and took longer because KV left or reached their device meanwhile, where a profile says what
/// that takes (`profile_link::device_bytes_per_second`).
struct slowed_steps {
  std::uint64_t count = 0;
  std::chrono::nanoseconds alone{0}; ///< what they would have taken, together
  std::chrono::nanoseconds more{0};  ///< what they took beyond that
  double most = 0;                   ///< of one of them, beyond that, by what it would have taken
};

struct simulated_process;

/// A cluster of the production actors in a world of its own, on devices and links that a profile describes.
///
/// Each instance is a process of its own with its own link, so that requests migrate between any two. Autoscaling
/// works: the processes that it orders start in the profile's start time. Steps and KV transfers take time; messages
/// between actors do where processes are separate (simulated_cluster_options::separate).
///
/// The processes are called `head` and `instance-0`, `instance-1`, ...; those that autoscaling orders as it calls them.
class simulated_cluster {
public:
  /// Throws std::invalid_argument where the node's options cannot be used.
  explicit simulated_cluster(simulated_cluster_options options);
  simulated_cluster(const simulated_cluster&) = delete;
  simulated_cluster& operator=(const simulated_cluster&) = delete;
  ~simulated_cluster();

  [[nodiscard]] runtime::sim::world& world() noexcept { return world_; }
  [[nodiscard]] cluster& actors() noexcept { return *cluster_; }
  /// Runs until every instance takes requests. False: that is never so.
  [[nodiscard]] bool start();
  /// Why an instance was not let in, or could not start, where that kept the cluster from starting. Empty: all did.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }
  /// As world().run_until, which does not store what is recorded.
  bool run_until(const std::function<bool()>& condition, std::uint64_t steps_max = ~std::uint64_t{0});
  /// From now on times, instance-seconds and the most instances count anew.
  void reset_costs();
  [[nodiscard]] instance_books books() const;
  [[nodiscard]] const slowed_steps& slowed() const noexcept { return *slowed_; }
  /// Of all devices, those that are gone among them.
  [[nodiscard]] const gpu::sim::step_books& steps() const noexcept { return *steps_; }
  /// Of pipelines whose layers may move; of the instances that are there.
  [[nodiscard]] layer_books layers() const;
  /// Null: there is none.
  [[nodiscard]] const gpu::sim::central_scheduler* central() const noexcept { return central_.get(); }
  /// The instances that are there, in the order of their ids.
  [[nodiscard]] const std::vector<protocols::instance_id>& present() const noexcept { return present_; }
  /// What the runtime complained about, the first few lines; empty in a run without a bug.
  [[nodiscard]] const std::vector<std::string>& complaints() const noexcept { return complaints_; }

  // Faults, only in a cluster of separate processes. At any moment between two steps, or from a timer of the world.
  /// It is there, and has not crashed.
  [[nodiscard]] bool runs(const std::string& process) const;
  /// There is a machine of this name, whether its process runs or not.
  [[nodiscard]] bool knows(const std::string& process) const;
  /// An instance's process, one that runs.
  void crash(const std::string& process, runtime::sim::crash_kind how);
  /// A crashed process is started anew, as another one, and loads its model; nothing for one that is gone or runs.
  void restart(const std::string& process);
  /// Messages and KV blocks between two of them.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  void freeze(const std::string& process);
  void thaw(const std::string& process);
  /// Steps of an instance's device that begin from now on take so many times as long, after a restart too.
  void slow_down(const std::string& process, double times);

private:
  class processes;
  void adopt(const topology& news);
  /// Adds what was paid and the times until now to the books, before what they count changes.
  void settle();
  /// By what the head last said, but for those whose process is gone and not missed yet.
  void count_present();
  void start_process(const std::string& name);
  void stop_process(const std::string& name);
  /// A system in this world.
  [[nodiscard]] std::unique_ptr<runtime::sim::system> make_system(const std::string& name);
  [[nodiscard]] member_options member_of(const std::string& name);
  [[nodiscard]] simulated_process* find(const std::string& name) const;
  // Where processes are separate (separate_processes.cpp):
  void open_links();
  void start_separate(const std::string& name);
  void run_member(simulated_process& process);
  void stop_separate(const std::string& name);
  void end_processes();
  /// One that runs.
  void stand_still(const std::string& process, bool frozen);
  /// `steps` are the device's timers, `loads` those of its process. `weights`: the process has them, so another start
  /// of its instance takes no time; null: each one takes its time. What goes through `fabric` may take from steps.
  [[nodiscard]] std::shared_ptr<transport::disk> make_disk(runtime::timer_source& timers) const;
  [[nodiscard]] executor_factory factory_on(runtime::timer_source& steps, runtime::timer_source& loads,
                                            std::shared_ptr<bool> weights,
                                            const std::shared_ptr<transport::fabric>& fabric);
  [[nodiscard]] node_options filled_in(node_options node, std::uint32_t context);
  /// How many take requests now.
  [[nodiscard]] std::uint32_t taking() const noexcept { return head_frozen_ ? 0 : books_.ready; }
  /// The same of the times alone.
  void count_times();
  void add_times(instance_books& books) const;

  simulated_cluster_options options_;
  std::shared_ptr<const gpu::sim::latency_model> latency_;       ///< one for all: its tables stay in the caches
  std::shared_ptr<const gpu::sim::latency_model> draft_latency_; ///< null: there is no draft model
  std::shared_ptr<slowed_steps> slowed_ = std::make_shared<slowed_steps>();
  layer_books layers_;
  std::shared_ptr<gpu::sim::step_books> steps_ = std::make_shared<gpu::sim::step_books>();
  std::shared_ptr<gpu::sim::central_scheduler> central_; ///< null: there is none
  runtime::sim::world world_;
  transport::sim::network network_;
  runtime::async::counter_random random_; ///< for the phases of the instances' reports
  void complain(std::string_view actor, std::string_view text);
  std::vector<std::string> complaints_;
  std::string refusal_;
  std::unique_ptr<runtime::sim::system> system_;
  std::unique_ptr<cluster> cluster_;
  std::map<std::string, runtime::handle<member_interface>> members_;   ///< by name; where they share a system
  std::map<std::string, protocols::instance_role> roles_;              ///< of those that are there from the start
  std::map<std::string, std::unique_ptr<simulated_process>> separate_; ///< by name; where they do not
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);         ///< for timers of the world
  std::uint32_t wanted_ = 0;                                           ///< processes started and not released
  std::chrono::nanoseconds times_counted_{0};                          ///< until when they are
  node_options made_of_;                                               ///< what processes are made of
  bool started_ = false;                                               ///< instances load from now on
  std::chrono::nanoseconds report_interval_{0};
  std::uint64_t keys_ = 0;
  std::vector<std::pair<protocols::instance_id, bool>> announced_; ///< as last heard: which, and whether it is ready
  std::set<protocols::instance_id> gone_;                          ///< of crashed processes; the head may not know yet
  std::vector<protocols::instance_id> present_;
  bool head_frozen_ = false;
  instance_books books_;
  std::chrono::nanoseconds counted_{0}; ///< until when they are
};

/// The link of a profile, for blocks of a simulated executor.
/// `share`: of the bytes that a block has, those that a simulated one shows.
[[nodiscard]] transport::sim::settings network_of(const gpu::sim::profile& device, double share);
[[nodiscard]] transport::sim::settings network_of(const gpu::sim::profile& device);

} // namespace godwit::actors::sim
