#pragma once

#include <godwit/gpu/model/config.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

enum class tensor_role : std::uint8_t { embedding, projection, residual_projection, norm, bias, head };

/// One tensor that a model of this configuration consists of, by its Hugging Face name.
struct tensor_need {
  std::string name;
  std::vector<std::uint64_t> shape;
  tensor_role role;
};

[[nodiscard]] inline std::uint64_t elements_of(const tensor_need& tensor) {
  std::uint64_t count = 1;
  for (const auto dimension : tensor.shape) count *= dimension;
  return count;
}

/// Names of what a layer has in the place of its MLP where it is a mixture of experts, without ".weight". Of gpt-oss
/// the experts' are what a file would call them that had each by itself (joined_experts).
[[nodiscard]] std::string router_name(const config& configuration, std::uint32_t layer);
struct expert_names {
  std::string gate, up, down;
};
[[nodiscard]] expert_names names_of_expert(const config& configuration, std::uint32_t layer, std::uint32_t expert);

/// gpt-oss: what the files have of all experts of a layer in one tensor. Gate and up take turns, gate first.
///
/// In 16 or 32 bits: `gate_up` [experts][hidden][2 * intermediate], `down` [experts][intermediate][hidden], each matrix
/// column by column. In codes (quant_method "mxfp4"): `gate_up`_blocks [experts][2 * intermediate][hidden / 32][16] and
/// `gate_up`_scales without the last, row by row, and `down` likewise. Either way `gate_up`_bias
/// [experts][2 * intermediate] and `down`_bias [experts][hidden].
struct joined_experts {
  std::uint32_t layer = 0;
  std::string gate_up, down;
};
/// None, of other families.
[[nodiscard]] std::vector<joined_experts> joined_experts_of(const config& configuration);

/// A matrix of the files that has those of several tensors one below the other; in names without ".weight".
struct fused_tensor {
  std::string name;
  std::vector<std::string> parts;
};
/// Those that the files of such a model have in the place of the tensors that it consists of; most families have none.
[[nodiscard]] std::vector<fused_tensor> fused_tensors_of(const config& configuration);

/// Names of a layer's norm before the MLP, and of those of what attention and MLP add (config::post_norms), with
/// ".weight".
struct norm_names {
  std::string mlp, attention_post, mlp_post;
};
[[nodiscard]] norm_names norms_of(const config& configuration, std::uint32_t layer);

/// What the model consists of by that name of the files: those of models that see, too, have other names around the
/// text's part. Empty: no part of the text's.
[[nodiscard]] std::string text_name(const config& configuration, std::string_view name);

/// All of them, in the order of a forward pass. `residual_projection` writes into the residual stream (o_proj,
/// down_proj).
[[nodiscard]] std::vector<tensor_need> tensors_of(const config& configuration);

} // namespace godwit::gpu::model
