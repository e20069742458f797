#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/gpu/executor.hpp>
#include <godwit/runtime/actor.hpp>
#include <godwit/runtime/log/logger.hpp>

#include <functional>
#include <memory>
#include <string>

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
  runtime::log::logger log;
};

/// Runs the steps of one model replica, one at a time. Thin: what a step holds is the llumlet's decision, how it is
/// computed the device's. When it ends, the step in flight is abandoned between two layers and the KV pool is freed.
class instance final : public runtime::actor<instance_interface> {
public:
  instance(runtime::actor_context context, instance_options options);
  [[nodiscard]] std::string_view name() const noexcept override { return "instance"; }
  [[nodiscard]] runtime::behavior_of<instance_interface> make_behavior() override;
  /// The llumlet gets the error as its answer and decides; nothing more to say here.
  void on_fault(const std::exception_ptr&, std::string_view) override {}

private:
  runtime::async::task<instance_facts> load();
  runtime::async::task<protocols::step_output> execute(protocols::step_input input);

  instance_options options_;
  std::shared_ptr<gpu::executor> executor_;
  bool busy_ = false;
};

} // namespace godwit::actors

/// Of an executor that was made: what it says of itself. Read in a replay, it is one that computes nothing.
template <> struct godwit::runtime::trace::recorded_form<godwit::actors::executor_outcome> {
  static void write(wire_writer& out, const actors::executor_outcome& x);
  static actors::executor_outcome read(wire_reader& in);
};
