#pragma once

#include "cpu/activations.hpp"
#include "cpu/device.hpp"
#include "cpu/forward_pass.hpp"
#include "cpu/kv_pool.hpp"
#include "cpu/packed_model.hpp"
#include "cpu/rope.hpp"
#include "cpu/step_plan.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace godwit::gpu::cpu {

/// Blocks of the pool by the settings; of a whole model's layers, or of those that `config` has. Throws out_of_memory.
[[nodiscard]] std::uint32_t blocks_for(const cpu_executor_settings& settings, const model::config& config, storage kv,
                                       std::uint64_t available);

/// All that an executor's forwards use. Shared with them, so that the order of destruction does not matter.
class engine {
public:
  engine(std::shared_ptr<const packed_model> model, const cpu_executor_settings& settings);

  [[nodiscard]] const executor_info& info() const noexcept { return info_; }
  /// With the layers that it began with.
  [[nodiscard]] const std::shared_ptr<const packed_model>& model() const noexcept { return first_; }
  /// Theirs. Whatever layers it has later, what it began with stays here.
  [[nodiscard]] const std::shared_ptr<kv_pool>& kv() const noexcept { return kv_; }
  [[nodiscard]] cpu_device& device() noexcept { return device_; }
  [[nodiscard]] const std::shared_ptr<cpu_adapters>& adapters() const noexcept { return adapters_; }

  /// Takes the one place for a step in flight.
  [[nodiscard]] step_plan begin(protocols::step_input input);
  void end() noexcept { busy_ = false; }
  [[nodiscard]] bool in_step() const noexcept { return busy_; }
  /// Nobody waits for this device any more.
  void leave_group();
  [[nodiscard]] engine_parts parts() noexcept;

  /// Between steps: from now on it computes the layers of `model`, whose KV is where `kv` says.
  void compute(std::shared_ptr<const packed_model> model, kv_layers kv) noexcept;

private:
  void reserve_adapted(const step_plan& plan);
  /// Makes the system hand out the pool's pages now, when too little memory is still an error and not a killed process.
  void touch_pool();

  std::shared_ptr<const packed_model> first_, model_; ///< as it began, as it is
  cpu_device device_;
  storage kv_kind_;
  std::shared_ptr<kv_pool> kv_;
  kv_layers layers_;
  activations memory_;
  rope_angles angles_;
  std::optional<rope_angles> window_angles_; ///< of layers with a window that turn otherwise
  std::vector<draw_function> samplers_;
  std::function<void(const logits_row&)> tap_;
  bool logits_of_all_rows_;
  std::shared_ptr<collective::communicator> group_;
  std::shared_ptr<pipeline::stage_link> before_, after_;
  std::shared_ptr<cpu_adapters> adapters_; ///< null: none
  std::atomic<bool> busy_{false};
  executor_info info_;
};

} // namespace godwit::gpu::cpu
