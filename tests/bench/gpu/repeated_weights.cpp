#include "gpu/repeated_weights.hpp"

#include <algorithm>
#include <cstring>
#include <random>

namespace godwit::bench {

repeated_weights::repeated_weights(const gpu::model::config& c) {
  const std::uint64_t queries = std::uint64_t{c.heads} * c.head_size, keys = std::uint64_t{c.kv_heads} * c.head_size;
  add("model.embed_tokens.weight", {c.vocabulary, c.hidden});
  add("model.norm.weight", {c.hidden});
  if (!c.tied_embeddings) add("lm_head.weight", {c.vocabulary, c.hidden});
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const auto layer = "model.layers." + std::to_string(i) + ".", attention = layer + "self_attn.",
               mlp = layer + "mlp.";
    add(attention + "q_proj.weight", {queries, c.hidden});
    add(attention + "k_proj.weight", {keys, c.hidden});
    add(attention + "v_proj.weight", {keys, c.hidden});
    add(attention + "o_proj.weight", {c.hidden, queries});
    add(mlp + "gate_proj.weight", {c.intermediate, c.hidden});
    add(mlp + "up_proj.weight", {c.intermediate, c.hidden});
    add(mlp + "down_proj.weight", {c.hidden, c.intermediate});
    add(layer + "input_layernorm.weight", {c.hidden});
    add(layer + "post_attention_layernorm.weight", {c.hidden});
    if (c.qkv_bias) {
      add(attention + "q_proj.bias", {queries});
      add(attention + "k_proj.bias", {keys});
      add(attention + "v_proj.bias", {keys});
    }
    if (c.qk_norm) {
      add(attention + "q_norm.weight", {c.head_size});
      add(attention + "k_norm.weight", {c.head_size});
    }
  }
  std::uint64_t largest = 0;
  for (const auto& [name, view] : views_) largest = std::max(largest, view.bytes);
  numbers_.resize(largest);
  // Small numbers of both signs; a stretch of a million of them again and again.
  std::mt19937 engine(1);
  std::vector<std::uint16_t> some(1'048'573); // a prime: no two rows of a matrix are the same
  for (auto& bits : some) bits = static_cast<std::uint16_t>(0x3C00U + engine() % 0x80U + (engine() % 2 << 15U));
  const std::size_t stretch = some.size() * 2;
  for (std::size_t at = 0; at < largest; at += stretch)
    std::memcpy(numbers_.data() + at, some.data(), std::min(stretch, largest - at));
  for (auto& [name, view] : views_) view.data = numbers_.data();
  // 8 of both signs: a token's own row of the head, which is its embedding, is to be as far from it as any other.
  final_norm_.resize(c.hidden);
  for (auto& bits : final_norm_) bits = static_cast<std::uint16_t>(0x4100U + (engine() % 2 << 15U));
  views_.find("model.norm.weight")->second.data = reinterpret_cast<const std::byte*>(final_norm_.data());
}

void repeated_weights::add(const std::string& name, std::vector<std::uint64_t> shape) {
  std::uint64_t bytes = 2;
  for (const auto size : shape) bytes *= size;
  views_[name] = {gpu::model::data_type::bf16, std::move(shape), nullptr, bytes};
  bytes_ += bytes;
}

const gpu::model::tensor_view* repeated_weights::find(std::string_view name) const noexcept {
  const auto found = views_.find(name);
  return found == views_.end() ? nullptr : &found->second;
}

} // namespace godwit::bench
