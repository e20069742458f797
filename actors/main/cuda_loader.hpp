#pragma once

#include "main/settings.hpp"

#include <godwit/actors/instance.hpp>
#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/gpu/model/model_directory.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace godwit::main {

/// Makes executors on GPUs: instance after instance on device after device, the weights uploaded once to each. An
/// instance that starts again gets the device that it had, whose memory is the one that it left. One thread.
class cuda_loader {
public:
  cuda_loader(std::shared_ptr<gpu::cuda::cuda_backend> backend, gpu::model::model_directory model,
              const serve_settings& settings);
  /// Throws what goes wrong.
  [[nodiscard]] std::unique_ptr<gpu::executor> make(protocols::instance_id instance);

private:
  [[nodiscard]] gpu::cuda::cuda_executor_settings settings_for(std::uint32_t device) const;

  std::shared_ptr<gpu::cuda::cuda_backend> backend_;
  gpu::model::model_directory model_;
  serve_settings settings_;
  gpu::cuda::mask_function allowed_;
  std::vector<std::shared_ptr<const gpu::cuda::cuda_model>> uploaded_; ///< by device; null: not yet
  std::vector<std::uint32_t> blocks_; ///< by device, of each instance's KV pool; 0 before the first
  std::map<protocols::instance_id, std::uint32_t> device_of_;
};

} // namespace godwit::main
