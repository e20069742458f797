#include "migration/shape.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/random_model.hpp>
#include <godwit/protocols/kv/block_hash.hpp>

#include <exception>
#include <stdexcept>
#include <utility>

namespace godwit::bench {

namespace {

/// More than any benchmark's context; the weights do not depend on it.
constexpr std::uint32_t positions = 32768;

} // namespace

served_model::served_model() {
  const auto* found = gpu::model::find_random_model("160m");
  if (found == nullptr) throw std::runtime_error("no model of the 160m shape");
  auto config = found->configuration;
  config.positions_max = positions;
  packed_ = gpu::cpu::pack_model(config, *gpu::model::random_weights(config));
}

actors::executor_factory served_model::factory(std::uint32_t context) const {
  return [packed = packed_, context](protocols::instance_id, std::function<void(actors::executor_outcome)> done) {
    actors::executor_outcome outcome;
    try {
      gpu::cpu::cpu_executor_settings settings;
      settings.threads = 1;
      settings.blocks = protocols::blocks_for(context) + 8; // a migration reserves one more than it needs
      outcome.made = gpu::cpu::make_cpu_executor(packed, settings);
    } catch (const std::exception& failure) {
      outcome.error = failure.what();
    }
    done(std::move(outcome));
  };
}

actors::model_identity served_model::identity(std::uint32_t context) const {
  const auto& c = gpu::cpu::config_of(*packed_);
  const std::uint64_t bytes = std::uint64_t{2} * 2 * c.layers * c.kv_heads * c.head_size * protocols::tokens_per_block;
  return {"random 160m", "bf16", bytes, context};
}

std::uint32_t served_model::vocabulary() const { return gpu::cpu::config_of(*packed_).vocabulary; }

} // namespace godwit::bench
