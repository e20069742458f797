#pragma once

#include <godwit/gpu/cpu/cpu_executor.hpp>
#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/weights.hpp>

#include <cstdint>
#include <string>

namespace godwit::gpu::cpu {

/// What a KV block of an executor will look like, known before there is one.
struct kv_geometry {
  std::string type;              ///< "bf16", "f32" or "fp8"
  std::uint64_t block_bytes = 0; ///< K and V of one block, all layers; as executor_info::block_bytes
};
/// Errors: std::runtime_error, as of pack_model, where a tensor is missing.
[[nodiscard]] kv_geometry kv_geometry_of(const model::config& config, const model::weights& weights,
                                         kv_precision precision);

} // namespace godwit::gpu::cpu
