#include "model/random_files.hpp"

#include "model/byte_alphabet.hpp"
#include "model/tensor_list.hpp"
#include "model/utf8.hpp"

#include <godwit/gpu/model/error.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <array>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

namespace json = boost::json;

namespace {

constexpr std::array<std::string_view, 3> special_tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

std::string_view dtype_name(data_type type) {
  switch (type) {
  case data_type::bf16:
    return "bfloat16";
  case data_type::f16:
    return "float16";
  case data_type::f32:
    break;
  }
  return "float32";
}

json::value rope_scaling(const rope_config& rope) {
  switch (rope.scaling) {
  case rope_config::scaling_kind::none:
    return nullptr;
  case rope_config::scaling_kind::linear:
    return json::object{{"rope_type", "linear"}, {"factor", rope.factor}};
  case rope_config::scaling_kind::yarn:
    return json::object{{"rope_type", "yarn"},
                        {"factor", rope.factor},
                        {"original_max_position_embeddings", rope.original_positions},
                        {"beta_fast", rope.fast_rotations},
                        {"beta_slow", rope.slow_rotations},
                        {"truncate", rope.whole_pairs},
                        {"attention_factor", rope.attention_factor}};
  case rope_config::scaling_kind::factors: // of GGUF files only
    return nullptr;
  case rope_config::scaling_kind::llama3:
    break;
  }
  return json::object{{"rope_type", "llama3"},
                      {"factor", rope.factor},
                      {"low_freq_factor", rope.low_frequency_factor},
                      {"high_freq_factor", rope.high_frequency_factor},
                      {"original_max_position_embeddings", rope.original_positions}};
}

json::array layer_types(const config& c) {
  json::array out;
  for (std::uint32_t i = 0; i < c.layers; ++i)
    out.emplace_back(window_of(c, i) != 0 ? "sliding_attention" : "full_attention");
  return out;
}

/// "aa", "ab", ..., "zz", "aaa", ...: word `index` of all words of two and more small letters.
std::string letters(std::uint64_t index) {
  std::size_t length = 2;
  std::uint64_t count = 26 * 26;
  while (index >= count) {
    index -= count;
    count *= 26;
    ++length;
  }
  std::string word(length, 'a');
  for (auto at = length; at-- > 0; index /= 26) word[at] = static_cast<char>('a' + index % 26);
  return word;
}

} // namespace

std::string config_text(const config& c) {
  json::array eos;
  for (const auto id : c.eos) eos.emplace_back(id);
  json::object out{{"architectures", json::array{c.architecture}},
                   {"vocab_size", c.vocabulary},
                   {"hidden_size", c.hidden},
                   {"intermediate_size", c.intermediate},
                   {"num_hidden_layers", c.layers},
                   {"num_attention_heads", c.heads},
                   {"num_key_value_heads", c.kv_heads},
                   {"head_dim", c.head_size},
                   {"hidden_act", "silu"},
                   {"max_position_embeddings", c.positions_max},
                   {"rms_norm_eps", c.rms_norm_epsilon},
                   {"rope_theta", c.rope.theta},
                   {"rope_scaling", rope_scaling(c.rope)},
                   {"tie_word_embeddings", c.tied_embeddings},
                   {"torch_dtype", dtype_name(c.type)},
                   {"eos_token_id", eos}};
  if (c.bos) out["bos_token_id"] = *c.bos;
  switch (c.kind) {
  case family::llama:
    out["model_type"] = "llama";
    out["attention_bias"] = c.qkv_bias;
    out["mlp_bias"] = c.mlp_bias;
    break;
  case family::gemma3: {
    out["model_type"] = "gemma3_text";
    out.erase("hidden_act");
    out["hidden_activation"] = "gelu_pytorch_tanh";
    out["attention_bias"] = c.qkv_bias;
    out["query_pre_attn_scalar"] = c.query_scalar;
    out["sliding_window"] = c.sliding_window ? json::value(*c.sliding_window) : json::value(nullptr);
    out["layer_types"] = layer_types(c);
    if (c.window_rope) out["rope_local_base_freq"] = c.window_rope->theta;
    break;
  }
  case family::gpt_oss: {
    out["model_type"] = "gpt_oss";
    out["attention_bias"] = c.qkv_bias;
    out["num_local_experts"] = c.mixture.experts;
    out["num_experts_per_tok"] = c.mixture.chosen;
    out["swiglu_limit"] = c.gate_limit;
    out["swiglu_alpha"] = c.gate_slope;
    out["sliding_window"] = c.sliding_window ? json::value(*c.sliding_window) : json::value(nullptr);
    out["layer_types"] = layer_types(c);
    break;
  }
  case family::phi3: // whose files would have other tensors
    throw model_error(c.architecture, "no random models of this family are written");
  case family::mistral:
    out["model_type"] = "mistral";
    out["sliding_window"] = c.sliding_window ? json::value(*c.sliding_window) : json::value(nullptr);
    break;
  case family::mixtral:
    out["model_type"] = "mixtral";
    out["sliding_window"] = c.sliding_window ? json::value(*c.sliding_window) : json::value(nullptr);
    out["num_local_experts"] = c.mixture.experts;
    out["num_experts_per_tok"] = c.mixture.chosen;
    break;
  case family::qwen3_moe:
    out["num_experts"] = c.mixture.experts;
    out["num_experts_per_tok"] = c.mixture.chosen;
    out["norm_topk_prob"] = c.mixture.normed;
    out["moe_intermediate_size"] = c.intermediate;
    out["decoder_sparse_step"] = 1;
    out["mlp_only_layers"] = json::array{};
    [[fallthrough]];
  case family::qwen3:
    out["attention_bias"] = c.qkv_bias;
    [[fallthrough]];
  case family::qwen2:
    out["model_type"] = c.kind == family::qwen2 ? "qwen2" : c.kind == family::qwen3 ? "qwen3" : "qwen3_moe";
    out["use_sliding_window"] = c.sliding_window.has_value();
    if (c.sliding_window) {
      out["sliding_window"] = *c.sliding_window;
      out["max_window_layers"] = 0;
    }
    break;
  }
  return json::serialize(out);
}

std::string tokenizer_text(std::uint32_t vocabulary) {
  const json::object byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  json::array added;
  json::object vocab;
  json::array merges;
  vocab.reserve(vocabulary);
  std::uint32_t next = 0;
  for (const auto token : special_tokens) {
    added.push_back(json::object{{"id", next},
                                 {"content", token},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", false},
                                 {"normalized", false},
                                 {"special", true}});
    vocab.emplace(token, next++);
  }
  for (const auto character : byte_alphabet::characters) {
    std::string spelling;
    append_utf8(spelling, character);
    vocab.emplace(spelling, next++);
  }
  for (std::uint64_t index = 0; next < vocabulary; ++index) {
    const auto word = letters(index);
    vocab.emplace(word, next++);
    merges.emplace_back(word.substr(0, word.size() - 1) + " " + word.back());
  }
  const json::object model{
      {"type", "BPE"},          {"dropout", nullptr},     {"unk_token", nullptr},      {"fuse_unk", false},
      {"byte_fallback", false}, {"ignore_merges", false}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
  return json::serialize(json::object{{"version", "1.0"},
                                      {"added_tokens", std::move(added)},
                                      {"normalizer", nullptr},
                                      {"pre_tokenizer", byte_level},
                                      {"post_processor", nullptr},
                                      {"decoder", byte_level},
                                      {"model", model}});
}

std::string generation_config_text() {
  return json::serialize(json::object{{"bos_token_id", 0}, {"eos_token_id", json::array{2, 0}}, {"temperature", 1.0}});
}

std::string tokenizer_config_text() {
  constexpr auto chat_ml = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
                           "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
                           "'<|im_start|>assistant\n' }}{% endif %}";
  return json::serialize(
      json::object{{"bos_token", special_tokens[0]}, {"eos_token", special_tokens[2]}, {"chat_template", chat_ml}});
}

std::string safetensors_header(const std::vector<tensor_need>& tensors) {
  json::object out{{"__metadata__", json::object{{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    std::uint64_t bytes = 2;
    json::array shape;
    for (const auto dimension : tensor.shape) {
      bytes *= dimension;
      shape.emplace_back(dimension);
    }
    out.emplace(tensor.name, json::object{{"dtype", "BF16"},
                                          {"shape", std::move(shape)},
                                          {"data_offsets", json::array{offset, offset + bytes}}});
    offset += bytes;
  }
  auto text = json::serialize(out);
  text.append((64 - (text.size() + 8) % 64) % 64, ' '); // tensors begin on a cache line
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xFFU);
  return length + text;
}

} // namespace godwit::gpu::model
