#include "migration/shape.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/cuda/cuda_plugin.hpp>
#include <godwit/gpu/model/random_model.hpp>
#include <godwit/protocols/kv/block_hash.hpp>

#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <utility>

namespace godwit::bench {

namespace {

/// More than any benchmark's context; the weights do not depend on it.
constexpr std::uint32_t positions = 65536;

} // namespace

served_model::served_model(bool on_gpu) {
  const auto* found = gpu::model::find_random_model("160m");
  if (found == nullptr) throw std::runtime_error("no model of the 160m shape");
  config_ = found->configuration;
  config_.positions_max = positions;
  const auto weights = gpu::model::random_weights(config_);
  if (!on_gpu) {
    packed_ = gpu::cpu::pack_model(config_, *weights);
    return;
  }
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  auto loaded = gpu::cuda::load_cuda({folder / gpu::cuda::plugin_name});
  if (!loaded.backend) throw std::runtime_error(loaded.why_not);
  cuda_ = std::move(loaded.backend);
  uploaded_ = cuda_->upload(0, config_, *weights);
}

transport::device_memory served_model::memory() const {
  transport::device_memory out;
  if (cuda_) out.copier = cuda_->make_copier(0);
  return out;
}

actors::executor_factory served_model::factory(std::uint32_t context) const {
  return [*this, context](protocols::instance_id, const std::function<void(actors::executor_outcome)>& done) {
    actors::executor_outcome outcome;
    const auto blocks = protocols::blocks_for(context) + 8; // a migration reserves one more than it needs
    try {
      if (cuda_) {
        gpu::cuda::cuda_executor_settings settings;
        settings.blocks = blocks;
        outcome.made = cuda_->make_executor(uploaded_, settings);
      } else {
        gpu::cpu::cpu_executor_settings settings;
        settings.threads = 1;
        settings.blocks = blocks;
        outcome.made = gpu::cpu::make_cpu_executor(packed_, settings);
      }
    } catch (const std::exception& failure) {
      outcome.error = failure.what();
    }
    done(std::move(outcome));
  };
}

actors::model_identity served_model::identity(std::uint32_t context) const {
  const auto& c = config_;
  const std::uint64_t bytes = std::uint64_t{2} * 2 * c.layers * c.kv_heads * c.head_size * protocols::tokens_per_block;
  return {"random 160m", "bf16", bytes, context};
}

std::uint32_t served_model::vocabulary() const { return config_.vocabulary; }

} // namespace godwit::bench
