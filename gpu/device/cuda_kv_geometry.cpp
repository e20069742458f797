#include <godwit/gpu/cuda/kv_geometry.hpp>

#include "cpu/model_tensors.hpp"

#include <godwit/protocols/batching/step.hpp>

namespace godwit::gpu::cuda {

cpu::kv_geometry kv_geometry_of(const model::config& config, const model::weights& weights) {
  const auto kind = cpu::find_tensors(config, weights).kind;
  const std::uint64_t elements =
      std::uint64_t{2} * config.layers * config.kv_heads * protocols::tokens_per_block * config.head_size;
  return {kind == cpu::storage::f16 ? "f16" : "bf16", elements * 2};
}

} // namespace godwit::gpu::cuda
