#pragma once

#include <godwit/actors/instance.hpp>
#include <godwit/actors/membership.hpp>
#include <godwit/actors/migration_environment.hpp>
#include <godwit/gpu/cpu/packed_model.hpp>
#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/transport/device_memory.hpp>

#include <cstdint>
#include <memory>

namespace godwit::bench {

/// How the instances of a benchmark are made: alike in every process.
struct shape {
  std::uint32_t context = 0;                                   ///< tokens; the KV pool of an instance holds so many
  double copy_share = actors::migration_settings{}.copy_share; ///< of the live migrations
  bool third_instance = false;   ///< a third one, whose migrations away are blocking copies
  bool copy_on_one_core = false; ///< the fabrics' threads of all processes share the first core
};

/// The 160m shape with random weights and a longer context: packed or uploaded once, shared by the instances of the
/// process.
class served_model {
public:
  /// `on_gpu`: on the first one that the plug-in beside this program finds; throws why not. Otherwise on the CPU.
  explicit served_model(bool on_gpu);
  [[nodiscard]] bool on_gpu() const noexcept { return uploaded_ != nullptr; }
  /// For the fabrics.
  [[nodiscard]] transport::device_memory memory() const;
  [[nodiscard]] actors::executor_factory factory(std::uint32_t context) const;
  [[nodiscard]] actors::model_identity identity(std::uint32_t context) const;
  [[nodiscard]] std::uint32_t vocabulary() const;

private:
  gpu::model::config config_;
  std::shared_ptr<const gpu::cpu::packed_model> packed_;
  std::shared_ptr<gpu::cuda::cuda_backend> cuda_;
  std::shared_ptr<const gpu::cuda::cuda_model> uploaded_;
};

} // namespace godwit::bench
