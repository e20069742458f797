#include "model/tensor_list.hpp"

namespace godwit::gpu::model {

namespace {

std::string mixture_of(const config& c, std::uint32_t layer) {
  return "model.layers." + std::to_string(layer) + (c.kind == family::mixtral ? ".block_sparse_moe." : ".mlp.");
}

} // namespace

std::string router_name(const config& c, std::uint32_t layer) {
  return mixture_of(c, layer) + (c.kind == family::gpt_oss ? "router" : "gate");
}

expert_names names_of_expert(const config& c, std::uint32_t layer, std::uint32_t expert) {
  const auto one = mixture_of(c, layer) + "experts." + std::to_string(expert) + ".";
  if (c.kind == family::mixtral) return {one + "w1", one + "w3", one + "w2"};
  return {one + "gate_proj", one + "up_proj", one + "down_proj"};
}

std::vector<joined_experts> joined_experts_of(const config& c) {
  std::vector<joined_experts> all;
  for (std::uint32_t i = 0; c.kind == family::gpt_oss && i < c.layers; ++i) {
    const auto of = mixture_of(c, i) + "experts.";
    all.push_back({i, of + "gate_up_proj", of + "down_proj"});
  }
  return all;
}

std::vector<fused_tensor> fused_tensors_of(const config& c) {
  std::vector<fused_tensor> all;
  for (std::uint32_t i = 0; c.kind == family::phi3 && i < c.layers; ++i) {
    const auto attention = "model.layers." + std::to_string(i) + ".self_attn.",
               mlp = "model.layers." + std::to_string(i) + ".mlp.";
    all.push_back({attention + "qkv_proj", {attention + "q_proj", attention + "k_proj", attention + "v_proj"}});
    all.push_back({mlp + "gate_up_proj", {mlp + "gate_proj", mlp + "up_proj"}});
  }
  return all;
}

norm_names norms_of(const config& c, std::uint32_t layer) {
  const auto of = "model.layers." + std::to_string(layer) + ".";
  if (!c.post_norms) return {of + "post_attention_layernorm.weight", {}, {}};
  return {of + "pre_feedforward_layernorm.weight", of + "post_attention_layernorm.weight",
          of + "post_feedforward_layernorm.weight"};
}

std::string text_name(const config& c, std::string_view name) {
  if (!leaves_images_aside(c)) return std::string(name);
  for (const std::string_view of_images :
       {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."})
    if (name.starts_with(of_images)) return {};
  constexpr std::string_view older = "language_model.", newer = "model.language_model.";
  if (name.starts_with(older)) return std::string(name.substr(older.size()));
  if (name.starts_with(newer)) return "model." + std::string(name.substr(newer.size()));
  return std::string(name);
}

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
    if (c.sinks) all.push_back({layer + "self_attn.sinks", {c.heads}, tensor_role::bias});
    const auto norms = norms_of(c, i);
    if (c.post_norms) all.push_back({norms.attention_post, {hidden}, tensor_role::norm});
    all.push_back({norms.mlp, {hidden}, tensor_role::norm});
    const auto mlp = [&](const expert_names& names, bool bias) {
      linear(names.gate, c.intermediate, hidden, tensor_role::projection, bias);
      linear(names.up, c.intermediate, hidden, tensor_role::projection, bias);
      linear(names.down, hidden, c.intermediate, tensor_role::residual_projection, bias);
    };
    if (c.mixture.experts == 0) {
      mlp({layer + "mlp.gate_proj", layer + "mlp.up_proj", layer + "mlp.down_proj"}, c.mlp_bias);
    } else {
      linear(router_name(c, i), c.mixture.experts, hidden, tensor_role::projection, c.mixture.biased);
      for (std::uint32_t expert = 0; expert < c.mixture.experts; ++expert)
        mlp(names_of_expert(c, i, expert), c.mixture.biased);
    }
    if (c.post_norms) all.push_back({norms.mlp_post, {hidden}, tensor_role::norm});
  }
  all.push_back({"model.norm.weight", {hidden}, tensor_role::norm});
  if (!c.tied_embeddings) all.push_back({"lm_head.weight", {c.vocabulary, hidden}, tensor_role::head});
  return all;
}

} // namespace godwit::gpu::model
