#pragma once

#include <godwit/gpu/cpu/kv_geometry.hpp>

namespace godwit::gpu::cuda {

/// What a KV block of a CUDA executor will look like: 16 bits an element, as the weights. Needs no GPU. Errors: as the
/// CPU's.
[[nodiscard]] cpu::kv_geometry kv_geometry_of(const model::config& config, const model::weights& weights);

} // namespace godwit::gpu::cuda
