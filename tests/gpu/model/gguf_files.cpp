#include "gpu/model/gguf_files.hpp"

#include "model/byte_alphabet.hpp"
#include "model/utf8.hpp"

#include <cstring>
#include <stdexcept>

namespace godwit::gpu::model::tests {

namespace {

using bytes = std::vector<std::byte>;

template <class T> void append(bytes& to, T value) {
  const auto at = to.size();
  to.resize(at + sizeof value);
  std::memcpy(to.data() + at, &value, sizeof value);
}
void append(bytes& to, std::string_view text) {
  append(to, std::uint64_t{text.size()});
  const auto at = to.size();
  to.resize(at + text.size());
  std::memcpy(to.data() + at, text.data(), text.size());
}
template <class T> bytes scalar(std::uint32_t type, T value) {
  bytes out;
  append(out, type);
  append(out, value);
  return out;
}
template <class T> bytes array(std::uint32_t element, const std::vector<T>& values) {
  bytes out;
  append(out, std::uint32_t{9});
  append(out, element);
  append(out, std::uint64_t{values.size()});
  for (const auto& value : values) {
    if constexpr (std::is_same_v<T, std::string>)
      append(out, std::string_view(value));
    else
      append(out, value);
  }
  return out;
}

constexpr std::uint64_t alignment = 32;
std::uint64_t aligned(std::uint64_t size) { return (size + alignment - 1) / alignment * alignment; }

} // namespace

void gguf_builder::put_u32(const std::string& key, std::uint32_t value) { values_[key] = scalar(4, value); }
void gguf_builder::put_f32(const std::string& key, float value) { values_[key] = scalar(6, value); }
void gguf_builder::put_flag(const std::string& key, bool value) { values_[key] = scalar(7, std::uint8_t{value}); }
void gguf_builder::put_text(const std::string& key, std::string_view value) {
  bytes out;
  append(out, std::uint32_t{8});
  append(out, value);
  values_[key] = std::move(out);
}
void gguf_builder::put_texts(const std::string& key, const std::vector<std::string>& values) {
  values_[key] = array(8, values);
}
void gguf_builder::put_i32s(const std::string& key, const std::vector<std::int32_t>& values) {
  values_[key] = array(5, values);
}
void gguf_builder::put_f32s(const std::string& key, const std::vector<float>& values) {
  values_[key] = array(6, values);
}
void gguf_builder::put_raw(const std::string& key, std::uint32_t type, bytes value) {
  auto& out = values_[key];
  out.clear();
  append(out, type);
  out.insert(out.end(), value.begin(), value.end());
}

gguf_builder::tensor& gguf_builder::find(const std::string& name) {
  for (auto& one : tensors)
    if (one.name == name) return one;
  throw std::runtime_error("no tensor " + name);
}

bytes gguf_builder::build() const {
  bytes out;
  for (const char letter : {'G', 'G', 'U', 'F'}) out.push_back(static_cast<std::byte>(letter));
  append(out, version);
  append(out, std::uint64_t{tensors.size()});
  append(out, values_.size() + keys_more);
  for (const auto& [key, value] : values_) {
    append(out, std::string_view(key));
    out.insert(out.end(), value.begin(), value.end());
  }
  std::uint64_t offset = 0;
  for (const auto& one : tensors) {
    append(out, std::string_view(one.name));
    append(out, static_cast<std::uint32_t>(one.shape.size()));
    for (auto size = one.shape.rbegin(); size != one.shape.rend(); ++size) append(out, *size);
    append(out, one.type);
    append(out, offset + one.misplaced);
    offset += aligned(one.bytes.size());
  }
  out.resize(aligned(out.size()));
  for (const auto& one : tensors) {
    out.insert(out.end(), one.bytes.begin(), one.bytes.end());
    out.resize(aligned(out.size()));
  }
  return out;
}

gguf_tokens small_gguf_tokens() {
  gguf_tokens out{{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, {3, 3, 3}};
  for (unsigned byte = 0; byte < 256; ++byte) {
    append_utf8(out.texts.emplace_back(), byte_alphabet::characters[byte]);
    out.kinds.push_back(1);
  }
  return out;
}

void put_sizes(gguf_builder& to, const config& of) {
  to.put_u32("llama.block_count", of.layers);
  to.put_u32("llama.context_length", of.positions_max);
  to.put_u32("llama.embedding_length", of.hidden);
  to.put_u32("llama.feed_forward_length", of.intermediate);
  to.put_u32("llama.attention.head_count", of.heads);
  to.put_u32("llama.attention.head_count_kv", of.kv_heads);
  to.put_f32("llama.attention.layer_norm_rms_epsilon", static_cast<float>(of.rms_norm_epsilon));
}

gguf_builder small_gguf() {
  constexpr std::uint32_t hidden = 8, inner = 12, vocabulary = 259;
  gguf_builder out;
  out.put_text("general.architecture", "llama");
  config sizes;
  sizes.layers = 1;
  sizes.positions_max = 64;
  sizes.hidden = hidden;
  sizes.intermediate = inner;
  sizes.heads = 2;
  sizes.kv_heads = 1;
  put_sizes(out, sizes);
  const auto tokens = small_gguf_tokens();
  out.put_text("tokenizer.ggml.model", "gpt2");
  out.put_text("tokenizer.ggml.pre", "gpt-2");
  out.put_texts("tokenizer.ggml.tokens", tokens.texts);
  out.put_i32s("tokenizer.ggml.token_type", tokens.kinds);
  out.put_texts("tokenizer.ggml.merges", {});
  out.put_u32("tokenizer.ggml.bos_token_id", 0);
  out.put_u32("tokenizer.ggml.eos_token_id", 0);
  float next = 0;
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    gguf_builder::tensor one{name, 0, std::move(shape), {}, 0};
    std::uint64_t count = 1;
    for (const auto size : one.shape) count *= size;
    for (std::uint64_t i = 0; i < count; ++i) append(one.bytes, next += 1);
    out.tensors.push_back(std::move(one));
  };
  add("token_embd.weight", {vocabulary, hidden});
  add("output_norm.weight", {hidden});
  add("blk.0.attn_norm.weight", {hidden});
  add("blk.0.ffn_norm.weight", {hidden});
  add("blk.0.attn_q.weight", {8, hidden});
  add("blk.0.attn_k.weight", {4, hidden});
  add("blk.0.attn_v.weight", {4, hidden});
  add("blk.0.attn_output.weight", {hidden, 8});
  add("blk.0.ffn_gate.weight", {inner, hidden});
  add("blk.0.ffn_up.weight", {inner, hidden});
  add("blk.0.ffn_down.weight", {hidden, inner});
  return out;
}

} // namespace godwit::gpu::model::tests
