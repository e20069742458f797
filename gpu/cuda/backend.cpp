#include "cuda/backend.hpp"

#include "cuda/device_copier.hpp"
#include "cuda/device_model.hpp"
#include "cuda/executor.hpp"
#include "cuda/probe.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

class device_backend final : public cuda_backend {
public:
  device_backend(std::vector<std::shared_ptr<driver>> devices, std::vector<std::string> skipped, copy_by small_pieces)
      : devices_(std::move(devices)), skipped_(std::move(skipped)), small_pieces_(small_pieces) {}

  [[nodiscard]] std::vector<cuda_device_info> devices() override {
    std::vector<cuda_device_info> all;
    for (const auto& one : devices_) {
      const auto& p = one->properties();
      all.push_back({p.index, p.name, p.major, p.minor, p.memory_bytes, one->memory().free_bytes});
    }
    return all;
  }

  [[nodiscard]] std::vector<std::string> skipped() override { return skipped_; }

  [[nodiscard]] std::shared_ptr<const cuda_model> upload(std::uint32_t device, const model::config& config,
                                                         const model::weights& weights, tensor_parallel::place part,
                                                         pipeline::stage stage) override {
    return upload_model(at(device), config, weights, part, stage);
  }

  [[nodiscard]] std::unique_ptr<executor> make_executor(const std::vector<std::shared_ptr<const cuda_model>>& parts,
                                                        const cuda_executor_settings& settings,
                                                        std::chrono::nanoseconds wait_max) override {
    std::vector<std::shared_ptr<const device_model>> models;
    for (const auto& part : parts) models.push_back(std::static_pointer_cast<const device_model>(part));
    return make_device_executor(models, settings, wait_max, small_pieces_);
  }

  [[nodiscard]] std::shared_ptr<protocols::memory_copier> make_copier(std::uint32_t device) override {
    return make_device_copier(at(device), devices_.size() == 1 ? small_pieces_ : copy_by::engines);
  }

  [[nodiscard]] std::unique_ptr<cuda_probe> make_probe(std::uint32_t device) override {
    return make_device_probe(at(device));
  }

  [[nodiscard]] double time_graphs(executor& of, std::uint32_t launches) override {
    return cuda::time_graphs(of, launches);
  }

private:
  [[nodiscard]] const std::shared_ptr<driver>& at(std::uint32_t device) const {
    if (device >= devices_.size())
      throw std::runtime_error("there is no CUDA device " + std::to_string(device) + "; there are " +
                               std::to_string(devices_.size()));
    return devices_[device];
  }

  std::vector<std::shared_ptr<driver>> devices_;
  std::vector<std::string> skipped_;
  copy_by small_pieces_;
};

} // namespace

std::shared_ptr<cuda_backend> make_backend(std::vector<std::shared_ptr<driver>> devices,
                                           std::vector<std::string> skipped, copy_by small_pieces) {
  return std::make_shared<device_backend>(std::move(devices), std::move(skipped), small_pieces);
}

} // namespace godwit::gpu::cuda
