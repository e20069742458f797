#pragma once

#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/gpu/executor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main::testing {

struct fake_model final : gpu::cuda::cuda_model {
  fake_model(std::uint32_t where, gpu::tensor_parallel::place what, gpu::pipeline::stage which)
      : device(where), part(what), stage(which) {}
  [[nodiscard]] std::uint64_t weight_bytes() const noexcept override { return 1; }
  std::uint32_t device;
  gpu::tensor_parallel::place part;
  gpu::pipeline::stage stage;
};

class fake_executor final : public gpu::executor {
public:
  explicit fake_executor(std::shared_ptr<void> keep) : keep_(std::move(keep)) { info_.blocks = 77; }
  [[nodiscard]] const gpu::executor_info& info() const noexcept override { return info_; }
  [[nodiscard]] std::unique_ptr<gpu::forward> begin(protocols::step_input) override { return nullptr; }
  [[nodiscard]] protocols::memory_region key_region(std::uint32_t, protocols::block_id) override { return {}; }
  [[nodiscard]] protocols::memory_region value_region(std::uint32_t, protocols::block_id) override { return {}; }

private:
  gpu::executor_info info_;
  std::shared_ptr<void> keep_;
};

/// As many GPUs as wanted, that note what they are asked for.
class fake_backend : public gpu::cuda::cuda_backend {
public:
  explicit fake_backend(std::uint32_t count) : count_(count) {}
  [[nodiscard]] std::vector<gpu::cuda::cuda_device_info> devices() override {
    std::vector<gpu::cuda::cuda_device_info> all(count_);
    for (std::uint32_t i = 0; i < count_; ++i) all[i].index = i;
    return all;
  }
  [[nodiscard]] std::vector<std::string> skipped() override { return {}; }
  [[nodiscard]] std::shared_ptr<const gpu::cuda::cuda_model> upload(std::uint32_t device, const gpu::model::config&,
                                                                    const gpu::model::weights&,
                                                                    gpu::tensor_parallel::place part,
                                                                    gpu::pipeline::stage stage) override {
    ++uploads;
    stages.push_back(stage);
    uploaded.push_back(device);
    return std::make_shared<fake_model>(device, part, stage);
  }
  [[nodiscard]] std::unique_ptr<gpu::executor>
  make_executor(const std::vector<std::shared_ptr<const gpu::cuda::cuda_model>>& parts,
                const gpu::cuda::cuda_executor_settings& settings, std::chrono::nanoseconds wait_max) override {
    std::vector<std::uint32_t> on;
    for (std::uint32_t rank = 0; rank < parts.size(); ++rank) {
      const auto& part = dynamic_cast<const fake_model&>(*parts[rank]);
      if (part.stage.stages > 1) {
        EXPECT_EQ(part.stage.index, rank);
        EXPECT_EQ(part.stage.stages, parts.size());
        EXPECT_EQ(part.part.degree, 1U);
      } else {
        EXPECT_EQ(part.part.rank, rank);
        EXPECT_EQ(part.part.degree, parts.size());
      }
      on.push_back(part.device);
    }
    executors.push_back(on);
    used.push_back(settings);
    used.back().keep.reset();
    waits.push_back(wait_max);
    return std::make_unique<fake_executor>(settings.keep);
  }
  [[nodiscard]] std::shared_ptr<protocols::memory_copier> make_copier(std::uint32_t) override { return nullptr; }
  [[nodiscard]] std::unique_ptr<gpu::cuda::cuda_probe> make_probe(std::uint32_t) override { return nullptr; }
  [[nodiscard]] double time_graphs(gpu::executor&, std::uint32_t) override { return 0; }

  std::uint32_t uploads = 0;
  std::vector<std::uint32_t> uploaded;               ///< to which devices
  std::vector<gpu::pipeline::stage> stages;          ///< of each upload
  std::vector<std::vector<std::uint32_t>> executors; ///< the devices of each
  std::vector<gpu::cuda::cuda_executor_settings> used;
  std::vector<std::chrono::nanoseconds> waits;

private:
  std::uint32_t count_;
};

} // namespace godwit::main::testing
