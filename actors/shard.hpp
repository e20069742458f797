#pragma once

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/actor.hpp>

#include <cstdint>
#include <memory>

namespace godwit::actors {

/// Runs one device of an instance that has several, which share its layers (docs/design/tensor_parallel.md) or have
/// some of them each (docs/design/pipeline.md). Spawned, watched and stopped by the instance, who gives every step to
/// all of them; when one ends, the devices that wait for it are told by theirs.
class shard final : public runtime::actor<shard_interface> {
public:
  /// `index`: among the instance's devices.
  shard(runtime::actor_context context, std::shared_ptr<gpu::executor> device, std::uint32_t index,
        std::uint32_t layers_per_advance);
  [[nodiscard]] std::string_view name() const noexcept override { return "shard"; }
  [[nodiscard]] runtime::behavior_of<shard_interface> make_behavior() override;
  /// The instance gets the error as its answer.
  void on_fault(const std::exception_ptr&, std::string_view) override {}

private:
  runtime::async::task<protocols::step_output> execute(protocols::step_input input);

  std::shared_ptr<gpu::executor> device_;
  std::uint32_t index_, layers_per_advance_;
  bool busy_ = false;
};

} // namespace godwit::actors
