#pragma once

#include "cpu/packing.hpp"

#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/weights.hpp>

#include <string>
#include <vector>

namespace godwit::gpu::cpu {

struct expert_tensors {
  const model::tensor_view *gate, *up, *down;
  const model::tensor_view *gate_bias, *up_bias, *down_bias; ///< null: none
};

/// The tensors of one layer, checked. Biases and the norms of heads are null where the model has none; of a mixture of
/// experts the MLP's are.
struct layer_tensors {
  const model::tensor_view *query, *key, *value, *output, *gate, *up, *down;
  const model::tensor_view *query_bias, *key_bias, *value_bias, *output_bias, *gate_bias, *up_bias, *down_bias;
  const model::tensor_view *attention_norm, *query_norm, *key_norm, *mlp_norm;
  const model::tensor_view *attention_post_norm, *mlp_post_norm; ///< null: what is added is not normed
  const model::tensor_view* sinks;                               ///< null: none
  const model::tensor_view *router, *router_bias;
  std::vector<expert_tensors> experts;
};

struct model_tensors {
  std::vector<layer_tensors> layers;
  const model::tensor_view* embeddings = nullptr;
  const model::tensor_view* head = nullptr; ///< null: the embeddings
  const model::tensor_view* final_norm = nullptr;
  /// How the matrices are stored: as in the file; f32 where types are mixed, since nothing is rounded.
  storage kind = storage::bf16;
};

/// Finds every tensor of the model by its Hugging Face name and checks shapes and sizes.
/// Throws std::runtime_error with one line on the first that is missing or wrong.
[[nodiscard]] model_tensors find_tensors(const model::config& config, const model::weights& weights);

} // namespace godwit::gpu::cpu
