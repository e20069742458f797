#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/protocols/batching/step_parts.hpp>
#include <godwit/protocols/policy/stage_balance.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/log/logger.hpp>
#include <godwit/runtime/trace/recorder.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::actors {

/// An executor, or one line that says why there is none.
struct executor_outcome {
  std::shared_ptr<gpu::executor> made;
  std::string error;
};

/// Makes the executor of an instance: called once at every (re)start, on the instance's context. Must not compute
/// there: packing weights belongs on a thread of its own, which calls `done` when it has finished (from any thread,
/// once).
using executor_factory = std::function<void(protocols::instance_id, std::function<void(executor_outcome)> done)>;

struct instance_options {
  protocols::instance_id id;
  executor_factory make_executor;
  /// Layers between two returns of control within a step; 0: all.
  std::uint32_t layers_per_advance = 0;
  /// On a pipeline of devices: how many rows of a step take as long to compute as the weights to read, by which steps
  /// are cut into parts (protocols::step_parts_for). 0: they are not.
  std::uint32_t pipeline_rows = 256;
  /// Likewise: how many steps, of different requests or with chunks of one prompt, are on their way through the stages
  /// at once. 0: as many as there are stages; never more than that, and one where a draft model drafts.
  std::uint32_t pipeline_steps = 0;
  /// Likewise: when layers move from a slow device to a fast one, where devices let them (gpu::executor::division).
  protocols::stage_balance_settings pipeline_balance;
  /// Bound of a step on one of several devices, behind the devices' own and the llumlet's.
  std::chrono::nanoseconds shard_timeout{std::chrono::minutes(30)};
  /// Sees the actors of several devices when they are there, in the order of the ranks; for drills. May be empty.
  std::function<void(protocols::instance_id, const std::vector<runtime::handle<shard_interface>>&)> on_shards;
  /// Sees how many layers each stage of a pipeline has, as its model is loaded and whenever some have `moved`. Must
  /// only store. May be empty.
  std::function<void(protocols::instance_id, const std::vector<std::uint32_t>& layers, bool moved)> on_layers;
  runtime::log::logger log;
  /// Held as long as the actor is there, for whoever waits for its end; filled in by the cluster. May be null.
  std::shared_ptr<void> keep;
};

/// Runs the steps of one model replica, one at a time, or through a pipeline one behind the other; they end in the
/// order in which they came. Thin: what a step holds is the llumlet's decision, how it is computed the device's. When
/// it ends, the step in flight is abandoned between two layers and the KV pool is freed.
///
/// A replica on several devices (gpu::executor::shards, gpu::executor::stages) has an actor for each, which this one
/// spawns and gives every step to: to shards at once, to the stages of a pipeline one after the other, part by part. It
/// ends when one of them does; after a step that failed on one it has none and runs no more. A draft model
/// (gpu::executor::draft) it drives itself. It sees how long each stage takes, and moves layers from one to another
/// between two steps (protocols::stage_balance), while those that come wait in their order.
class instance final : public runtime::actor<instance_interface> {
public:
  instance(runtime::actor_context context, instance_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "instance"; }
  [[nodiscard]] runtime::behavior_of<instance_interface> make_behavior() override;
  /// The llumlet gets the error as its answer and decides; nothing more to say here.
  void on_fault(const std::exception_ptr&, std::string_view) override {}
  void on_stop() override;

private:
  runtime::async::task<instance_facts> load();
  /// A step, and before it those of the draft model that it asks for, where there is one.
  runtime::async::task<protocols::step_output> run(protocols::step_input input);
  /// On the device, or on all of them.
  runtime::async::task<protocols::step_output> execute(protocols::step_input input, runtime::trace::span span);
  /// One step on all devices; the output is that of rank 0.
  struct shared_step;
  runtime::async::task<protocols::step_output> execute_on_shards(protocols::step_input input,
                                                                 runtime::trace::span span);
  runtime::async::task<void> execute_on(std::size_t rank, protocols::step_input input,
                                        std::shared_ptr<shared_step> whole);
  /// One step through all stages; several parts of it are under way at once, and of the steps before and after it.
  struct staged_step;
  runtime::async::task<protocols::step_output> execute_on_stages(protocols::step_input input,
                                                                 runtime::trace::span span);
  void begin_turns();
  /// Until layers have moved, and behind those that wait already. True: it has waited, and has to say that it has
  /// entered the pipeline, or will not (`entered`).
  runtime::async::task<bool> wait_for_turn();
  void entered();
  /// Layers move once no step is in the pipeline; where none are to, the next step that waits goes on.
  void proceed();
  runtime::async::task<void> move_layers();
  void tell_layers(bool moved);
  /// Of all steps in the pipeline.
  void end_line(const std::string& why);
  runtime::async::task<void> run_turn(protocols::stage_schedule::turn what, std::shared_ptr<staged_step> whole);
  [[nodiscard]] std::uint32_t steps_max() const noexcept;
  /// Throws what went wrong with a step on several devices, which are stopped; not those of a model that was loaded
  /// after the step began. `load`: as `loads_` was then.
  [[noreturn]] void give_up(const std::string& why, runtime::trace::span& span, std::uint64_t load);
  void spawn_shards();
  void stop_shards(runtime::stop_reason reason);

  instance_options options_;
  std::shared_ptr<gpu::executor> executor_;
  std::vector<runtime::handle<shard_interface>>
      shards_; ///< by rank, or by stage; empty: one device, driven by this actor
  bool staged_ = false;
  std::uint64_t loads_ = 0;                       ///< of models
  std::uint32_t steps_ = 0;                       ///< in flight
  std::deque<std::shared_ptr<staged_step>> line_; ///< in the pipeline, the oldest first
  protocols::stage_schedule schedule_{1};
  std::optional<protocols::stage_balance> balance_; ///< nothing: layers stay where they are
  std::optional<protocols::layer_move> wanted_;     ///< until it has come about
  bool moving_ = false;                             ///< it is under way
  std::deque<runtime::completer<bool>> waiting_;    ///< steps that have come meanwhile
  bool entering_ = false;                           ///< one of them goes on, and is not in the pipeline yet
};

} // namespace godwit::actors

/// Of an executor that was made: what it says of itself. Read in a replay, it is one that computes nothing.
template <> struct godwit::runtime::trace::recorded_form<godwit::actors::executor_outcome> {
  static void write(wire_writer& out, const actors::executor_outcome& x);
  static actors::executor_outcome read(wire_reader& in);
};
