#include "model/tensor_list.hpp"

namespace godwit::gpu::model {

std::vector<tensor_need> tensors_of(const config& c) {
  std::vector<tensor_need> all;
  const std::uint64_t hidden = c.hidden;
  const auto queries = std::uint64_t{c.heads} * c.head_size;
  const auto keys = std::uint64_t{c.kv_heads} * c.head_size;
  const auto linear = [&](const std::string& name, std::uint64_t out, std::uint64_t in, tensor_role role, bool bias) {
    all.push_back({name + ".weight", {out, in}, role});
    if (bias) all.push_back({name + ".bias", {out}, tensor_role::bias});
  };
  all.push_back({"model.embed_tokens.weight", {c.vocabulary, hidden}, tensor_role::embedding});
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const auto layer = "model.layers." + std::to_string(i) + ".";
    all.push_back({layer + "input_layernorm.weight", {hidden}, tensor_role::norm});
    linear(layer + "self_attn.q_proj", queries, hidden, tensor_role::projection, c.qkv_bias);
    linear(layer + "self_attn.k_proj", keys, hidden, tensor_role::projection, c.qkv_bias);
    linear(layer + "self_attn.v_proj", keys, hidden, tensor_role::projection, c.qkv_bias);
    if (c.qk_norm)
      for (const auto* name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
        all.push_back({layer + name, {c.head_size}, tensor_role::norm});
    linear(layer + "self_attn.o_proj", hidden, queries, tensor_role::residual_projection, c.output_bias);
    all.push_back({layer + "post_attention_layernorm.weight", {hidden}, tensor_role::norm});
    linear(layer + "mlp.gate_proj", c.intermediate, hidden, tensor_role::projection, c.mlp_bias);
    linear(layer + "mlp.up_proj", c.intermediate, hidden, tensor_role::projection, c.mlp_bias);
    linear(layer + "mlp.down_proj", hidden, c.intermediate, tensor_role::residual_projection, c.mlp_bias);
  }
  all.push_back({"model.norm.weight", {hidden}, tensor_role::norm});
  if (!c.tied_embeddings) all.push_back({"lm_head.weight", {c.vocabulary, hidden}, tensor_role::head});
  return all;
}

} // namespace godwit::gpu::model
