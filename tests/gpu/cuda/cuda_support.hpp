#pragma once

#include "gpu/cpu/tiny_model.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::cuda::testing {

/// What the tests run on: emulated GPUs, or the plug-in's; the sources are the same, the programs differ.
struct backend_under_test {
  std::shared_ptr<cuda_backend> backend; ///< null: there is none
  std::string why_not;
};
/// With so many devices, or none.
[[nodiscard]] backend_under_test find_backend(std::uint32_t devices = 1);

/// Small, of sizes that the kernels are made for: two layers, grouped queries, a vocabulary that is no multiple of 8.
[[nodiscard]] model::config small_config();
/// The same with four KV heads, and an MLP and a vocabulary that no degree divides evenly.
[[nodiscard]] model::config four_kv_heads();

using model_parts = std::vector<std::shared_ptr<const cuda_model>>;
/// Part after part on the devices from `first` on.
[[nodiscard]] model_parts upload_parts(cuda_backend& backend, const model::config& config,
                                       const model::weights& weights, std::uint32_t degree, std::uint32_t first = 0);

/// Stage after stage, of so many layers each, likewise.
[[nodiscard]] model_parts upload_stages(cuda_backend& backend, const model::config& config,
                                        const model::weights& weights, std::span<const std::uint32_t> layers,
                                        std::uint32_t first = 0);

/// Runs one step and waits, `layers_at_once` layers at a time (0: all). Throws std::runtime_error with a step's error.
protocols::step_output run_step(executor& on, std::uint64_t number, std::vector<protocols::step_slice> slices,
                                std::vector<protocols::block_copy> copies = {}, std::uint32_t layers_at_once = 0);

/// Runs steps and keeps the logits of the last one: of each slice's last row that has some.
class cuda_runner {
public:
  cuda_runner(cuda_backend& backend, std::shared_ptr<const cuda_model> model, cuda_executor_settings settings);
  cuda_runner(cuda_backend& backend, const model_parts& parts, cuda_executor_settings settings);
  protocols::step_output step(std::vector<protocols::step_slice> slices, std::vector<protocols::block_copy> copies = {},
                              std::uint32_t layers_at_once = 0);
  [[nodiscard]] executor& get() { return *executor_; }
  [[nodiscard]] const std::vector<float>& logits(std::uint32_t slice) const { return logits_.at(slice); }

private:
  std::map<std::uint32_t, std::vector<float>> logits_;
  std::unique_ptr<executor> executor_;
  std::uint64_t steps_ = 0;
};

/// The largest difference of two rows, against the largest number of the second one.
[[nodiscard]] double distance(std::span<const float> a, std::span<const float> b);

} // namespace godwit::gpu::cuda::testing
