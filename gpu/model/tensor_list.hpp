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

/// Names of what a layer has in the place of its MLP where it is a mixture of experts, without ".weight".
[[nodiscard]] std::string router_name(const config& configuration, std::uint32_t layer);
struct expert_names {
  std::string gate, up, down;
};
[[nodiscard]] expert_names names_of_expert(const config& configuration, std::uint32_t layer, std::uint32_t expert);

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
