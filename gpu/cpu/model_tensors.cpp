#include "cpu/model_tensors.hpp"

#include "model/tensor_list.hpp"

#include <stdexcept>

namespace godwit::gpu::cpu {

namespace {

std::string in_words(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const auto size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

class finder {
public:
  explicit finder(const model::weights& weights) : weights_(weights) {}

  const model::tensor_view* get(const std::string& name, std::vector<std::uint64_t> shape) const {
    const auto* tensor = weights_.find(name);
    if (tensor == nullptr)
      fail("the model has no tensor " + name + "; its weight files are incomplete or of another architecture");
    std::uint64_t count = 1;
    for (const auto size : shape) count *= size;
    if (tensor->shape != shape || tensor->bytes != count * (tensor->type == model::data_type::f32 ? 4 : 2))
      fail("tensor " + name + " has shape " + in_words(tensor->shape) + ", config.json makes it " + in_words(shape) +
           "; the files do not belong together");
    return tensor;
  }

  const model::tensor_view* get_if(bool wanted, const std::string& name, std::vector<std::uint64_t> shape) const {
    return wanted ? get(name, std::move(shape)) : nullptr;
  }

private:
  const model::weights& weights_;
};

void check(const model::config& c) {
  const auto within = [](const char* name, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
    if (value < low || value > high)
      fail("config.json: " + std::string(name) + " = " + std::to_string(value) + " is outside " + std::to_string(low) +
           " .. " + std::to_string(high));
  };
  within("num_hidden_layers", c.layers, 1, 1000);
  within("hidden_size", c.hidden, 1, 1U << 20);
  const bool qwen3_moe = c.kind == model::family::qwen3_moe;
  within(qwen3_moe ? "moe_intermediate_size" : "intermediate_size", c.intermediate, 1, 1U << 22);
  within("vocab_size", c.vocabulary, 1, 1U << 24);
  within("num_attention_heads", c.heads, 1, 4096);
  within("num_key_value_heads", c.kv_heads, 1, c.heads);
  within("head_dim", c.head_size, 2, 256);
  within("max_position_embeddings", c.positions_max, 1, 1U << 24);
  within(qwen3_moe ? "num_experts" : "num_local_experts", c.mixture.experts, 0, 1U << 16);
  if (c.mixture.experts > 0) within("num_experts_per_tok", c.mixture.chosen, 1, c.mixture.experts);
  if (c.head_size % 2 != 0) fail("config.json: head_dim = " + std::to_string(c.head_size) + " is odd");
  if (c.heads % c.kv_heads != 0)
    fail("config.json: num_attention_heads = " + std::to_string(c.heads) +
         " is no multiple of num_key_value_heads = " + std::to_string(c.kv_heads));
}

storage common_storage(const model_tensors& all) {
  const auto type = all.layers.front().query->type;
  bool same = all.head == nullptr ? all.embeddings->type == type : all.head->type == type;
  const auto look_at = [&](std::initializer_list<const model::tensor_view*> tensors) {
    for (const auto* tensor : tensors) same = same && (tensor == nullptr || tensor->type == type);
  };
  for (const auto& l : all.layers) {
    look_at({l.query, l.key, l.value, l.output, l.gate, l.up, l.down, l.router});
    for (const auto& expert : l.experts) look_at({expert.gate, expert.up, expert.down});
  }
  return same ? storage_of(type) : storage::f32;
}

} // namespace

model_tensors find_tensors(const model::config& c, const model::weights& weights) {
  check(c);
  const finder tensors(weights);
  const std::uint64_t hidden = c.hidden, queries = std::uint64_t{c.heads} * c.head_size,
                      keys = std::uint64_t{c.kv_heads} * c.head_size, inner = c.intermediate;
  model_tensors all;
  all.embeddings = tensors.get("model.embed_tokens.weight", {c.vocabulary, hidden});
  all.final_norm = tensors.get("model.norm.weight", {hidden});
  all.head = tensors.get_if(!c.tied_embeddings, "lm_head.weight", {c.vocabulary, hidden});
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", attention = layer + "self_attn.",
                      mlp = layer + "mlp.";
    layer_tensors l{};
    l.query = tensors.get(attention + "q_proj.weight", {queries, hidden});
    l.key = tensors.get(attention + "k_proj.weight", {keys, hidden});
    l.value = tensors.get(attention + "v_proj.weight", {keys, hidden});
    l.output = tensors.get(attention + "o_proj.weight", {hidden, queries});
    const auto experts = c.mixture.experts;
    l.gate = tensors.get_if(experts == 0, mlp + "gate_proj.weight", {inner, hidden});
    l.up = tensors.get_if(experts == 0, mlp + "up_proj.weight", {inner, hidden});
    l.down = tensors.get_if(experts == 0, mlp + "down_proj.weight", {hidden, inner});
    l.router = tensors.get_if(experts > 0, model::router_name(c, i) + ".weight", {experts, hidden});
    for (std::uint32_t expert = 0; expert < experts; ++expert) {
      const auto names = model::names_of_expert(c, i, expert);
      const bool biased = c.mixture.biased;
      l.experts.push_back(
          {tensors.get(names.gate + ".weight", {inner, hidden}), tensors.get(names.up + ".weight", {inner, hidden}),
           tensors.get(names.down + ".weight", {hidden, inner}), tensors.get_if(biased, names.gate + ".bias", {inner}),
           tensors.get_if(biased, names.up + ".bias", {inner}),
           tensors.get_if(biased, names.down + ".bias", {hidden})});
    }
    l.router_bias = tensors.get_if(experts > 0 && c.mixture.biased, model::router_name(c, i) + ".bias", {experts});
    l.sinks = tensors.get_if(c.sinks, attention + "sinks", {c.heads});
    l.query_bias = tensors.get_if(c.qkv_bias, attention + "q_proj.bias", {queries});
    l.key_bias = tensors.get_if(c.qkv_bias, attention + "k_proj.bias", {keys});
    l.value_bias = tensors.get_if(c.qkv_bias, attention + "v_proj.bias", {keys});
    l.output_bias = tensors.get_if(c.output_bias, attention + "o_proj.bias", {hidden});
    l.gate_bias = tensors.get_if(c.mlp_bias, mlp + "gate_proj.bias", {inner});
    l.up_bias = tensors.get_if(c.mlp_bias, mlp + "up_proj.bias", {inner});
    l.down_bias = tensors.get_if(c.mlp_bias, mlp + "down_proj.bias", {hidden});
    l.attention_norm = tensors.get(layer + "input_layernorm.weight", {hidden});
    l.query_norm = tensors.get_if(c.qk_norm, attention + "q_norm.weight", {c.head_size});
    l.key_norm = tensors.get_if(c.qk_norm, attention + "k_norm.weight", {c.head_size});
    const auto norms = model::norms_of(c, i);
    l.mlp_norm = tensors.get(norms.mlp, {hidden});
    l.attention_post_norm = tensors.get_if(c.post_norms, norms.attention_post, {hidden});
    l.mlp_post_norm = tensors.get_if(c.post_norms, norms.mlp_post, {hidden});
    all.layers.push_back(l);
  }
  all.kind = common_storage(all);
  return all;
}

} // namespace godwit::gpu::cpu
