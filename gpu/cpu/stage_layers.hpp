#pragma once

#include "cpu/engine.hpp"

#include <godwit/gpu/pipeline.hpp>

#include <memory>
#include <vector>

namespace godwit::gpu::cpu {

/// The stages of one executor as models that have what any of them may come to compute: working memory for matrices in
/// codes where one of them has such.
[[nodiscard]] std::vector<std::shared_ptr<const packed_model>>
ready_to_move(const std::vector<std::shared_ptr<const packed_model>>& stages);

/// Layers move between devices whose memory every one of them reaches: what moves is who computes them. Weights, KV and
/// adapters stay where they are, held by whoever computes with them.
[[nodiscard]] std::shared_ptr<pipeline::layer_division>
make_layer_division(std::vector<std::shared_ptr<engine>> stages);

} // namespace godwit::gpu::cpu
