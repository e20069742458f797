#include <godwit/gpu/cpu/kv_geometry.hpp>

#include "cpu/kv_pool.hpp"
#include "cpu/model_tensors.hpp"

namespace godwit::gpu::cpu {

kv_geometry kv_geometry_of(const model::config& config, const model::weights& weights, kv_precision precision) {
  const auto kind = kv_storage(precision, find_tensors(config, weights).kind);
  return {name_of_kv(kind), kv_pool::block_bytes(config, kind)};
}

} // namespace godwit::gpu::cpu
