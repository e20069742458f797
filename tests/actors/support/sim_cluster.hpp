#pragma once

#include "actors/support/recording_sink.hpp"

#include <godwit/actors/cluster.hpp>
#include <godwit/actors/member.hpp>
#include <godwit/gpu/sim/sim_adapters.hpp>
#include <godwit/gpu/sim/sim_executor.hpp>
#include <godwit/gpu/sim/sim_stages.hpp>
#include <godwit/runtime/sim/world.hpp>
#include <godwit/transport/sim/network.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::test {

/// The production actors in one simulated world, with simulated devices.
struct sim_cluster_options {
  std::uint64_t seed = 1;
  std::uint32_t instances = 2;
  std::uint32_t blocks = 64;
  std::uint32_t context = 512;
  std::uint32_t vocabulary = 1000;
  std::uint32_t step_tokens_max = 64;
  std::uint32_t running_max = 16;
  std::uint32_t waiting_max = 64;
  gpu::sim::latency_model latency = {};
  std::string policy = "freeness";
  std::optional<gpu::sim::sim_adapters_settings> adapters = {}; ///< of all instances together
  gpu::sim::sim_swap swap = {};                                 ///< of each instance
  /// How many stages each instance has, by its number, in turn. Empty: none.
  std::vector<std::uint32_t> stages = {};
  gpu::sim::wrap_stage wrap_stage = {};
  std::uint32_t layers = 4;
  std::vector<double> stage_speeds = {}; ///< of those that have as many stages
  std::function<void(actors::node_options&)> adjust = {};
  /// Each instance is a process of its own, with a fabric called `process-ID`, and requests can migrate.
  std::optional<transport::sim::settings> fabric = {};
  /// With a fabric: each of these processes is a system of its own, called like its fabric, and joins the system `head`
  /// over the world's links.
  bool nodes = false;
  /// Makes the recorder of the whole world, on its clock.
  std::function<std::shared_ptr<runtime::trace::recorder>(const runtime::clock&)> record = {};
};

class sim_cluster {
public:
  explicit sim_cluster(sim_cluster_options options = {});
  ~sim_cluster();

  /// Submits a request with a prompt of so many tokens, which follow from `number`, as all of the request does. Its
  /// client knows it as `rNUMBER`.
  std::shared_ptr<recording_sink> submit(std::uint32_t number, std::uint32_t prompt_tokens,
                                         std::uint32_t answer_tokens);
  void submit(std::shared_ptr<actors::submission> one);
  /// Runs until the condition holds; false where it never does.
  bool run_until(const std::function<bool()>& condition);
  bool run_until_ended(const std::vector<std::shared_ptr<recording_sink>>& sinks);
  void run_for(std::chrono::nanoseconds time) { world.run_for(time); }
  [[nodiscard]] protocols::cluster_status status(bool with_requests = false);
  /// Blocks that some request holds, over all instances.
  [[nodiscard]] std::uint32_t blocks_used();

  /// With a fabric: one more process called `process-NUMBER`, whose key is NUMBER + 1, or of this name.
  runtime::handle<actors::member_interface> start_process(std::uint32_t number, std::string name = {});

  /// With `nodes`: a process of this name that brings a front end, and its way to it. Its key is NUMBER + 1.
  std::shared_ptr<actors::frontend_gate>
  start_frontend(std::uint32_t number, const std::string& name,
                 const std::function<void(actors::frontend_options&)>& adjust = {});
  /// The same as `submit`, by way of another front end.
  std::shared_ptr<recording_sink> submit_at(actors::frontend_gate& gate, std::uint32_t number,
                                            std::uint32_t prompt_tokens, std::uint32_t answer_tokens);
  /// With `nodes`: the head's process is killed, and started anew, as another one.
  void crash_head(runtime::sim::crash_kind how);
  void restart_head();

  /// The instance that has the first (or the only) open request in this state.
  [[nodiscard]] std::optional<std::uint32_t> instance_with(protocols::request_state state);
  /// The name of an instance's fabric.
  [[nodiscard]] static std::string process_of(std::uint32_t instance) { return "process-" + std::to_string(instance); }
  /// True once every instance takes requests.
  [[nodiscard]] bool all_ready(std::uint32_t instances) const;

  runtime::sim::world world;
  runtime::sim::event_log events;
  std::vector<std::string> reports;                 ///< what the runtime complained about
  std::unique_ptr<transport::sim::network> network; ///< null without a fabric
  std::vector<std::weak_ptr<transport::fabric>> fabrics;
  std::unique_ptr<runtime::sim::system> system;
  std::map<std::string, std::unique_ptr<runtime::sim::system>> processes; ///< with `nodes`, by name
  std::unique_ptr<actors::cluster> cluster;

private:
  runtime::sim::system& start_system(const std::string& name);
  sim_cluster_options options_;
  actors::node_options made_; ///< what processes are made of
};

} // namespace godwit::test
