#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace godwit::gpu::model {

enum class data_type : std::uint8_t { bf16, f16, f32 };
[[nodiscard]] std::size_t bytes_of(data_type type) noexcept;
[[nodiscard]] std::string to_string(data_type type);

/// phi3: Phi-3 and Phi-4, whose files have queries, keys and values in one matrix, gate and up in another.
/// gemma3: its text models, and the text half of those that see.
enum class family : std::uint8_t { llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, phi3, gemma3, gpt_oss };

/// What the MLP makes of its gate g, which the up u is multiplied by: g / (1 + e^-g), or GELU in the form that has a
/// tanh; or, of both no farther from 0 than a limit (of g only above), g / (1 + e^-sg) (u + 1).
enum class activation : std::uint8_t { silu, gelu_tanh, clamped };

/// Rotary embedding, as in config.json's rope_theta and rope_scaling. `none`, `linear` (positions / factor),
/// `llama3` and `yarn` (Peng et al., "YaRN", section 3) are known; `factors` is what GGUF files say of Llama 3's.
struct rope_config {
  enum class scaling_kind : std::uint8_t { none, linear, llama3, yarn, factors };
  double theta = 10000.0;
  scaling_kind scaling = scaling_kind::none;
  double factor = 1.0;
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  std::uint32_t original_positions = 8192;
  /// Of `yarn`: pairs that turn more often than `fast_rotations` within the original context stay as they are, those
  /// that turn less than `slow_rotations` are stretched; the pairs between them are counted in whole ones
  /// (`whole_pairs`).
  double fast_rotations = 32.0;
  double slow_rotations = 1.0;
  bool whole_pairs = true;
  std::vector<float> factors;    ///< of `factors`: what each pair of a head turns slower by
  double attention_factor = 1.0; ///< queries and keys are multiplied by it as they turn
};

/// Experts in the place of each layer's MLP (Mixtral, Qwen3-MoE, gpt-oss): a router chooses some of them for each
/// token, and what they compute is added up by the router's weights.
struct mixture_config {
  std::uint32_t experts = 0; ///< of a layer; 0: a plain MLP
  std::uint32_t chosen = 0;  ///< for each token
  bool normed = true;        ///< the weights of those that are chosen add up to one, else those of all
  bool biased = false;       ///< gpt-oss: the router and each expert's matrices have biases
};

/// How files keep the matrices of layers in fewer bits, as config.json's quantization_config says. Which matrices, and
/// how many of their weights share a scale, is for the tensors to say.
struct quantization_config {
  enum class method_kind : std::uint8_t { none, fp8, compressed, gptq, awq, gguf, mxfp4 };
  method_kind method = method_kind::none;
  /// gptq: the files say of a zero one less than it is.
  bool zeros_less_one = false;
  /// fp8, compressed: rows and columns that share a scale, where the file says so; 0: it does not.
  std::uint32_t block_rows = 0, block_columns = 0;
  std::uint32_t group = 0; ///< columns of a row that share a scale, likewise; 0 also where matrices differ
};

/// A decoder-only transformer of the Llama family, as read from config.json and generation_config.json.
struct config {
  family kind = family::llama;
  std::string architecture; ///< as in the file: "LlamaForCausalLM"
  std::uint32_t vocabulary = 0;
  std::uint32_t hidden = 0;
  std::uint32_t intermediate = 0; ///< of the MLP, or of one expert
  mixture_config mixture;
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t positions_max = 0;
  double rms_norm_epsilon = 1e-5;
  rope_config rope;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool qk_norm = false;     ///< Qwen3: each head of queries and keys is normed, with RMSNorm, before it turns
  bool output_bias = false; ///< attention o_proj (Llama and Qwen3 with attention_bias)
  bool mlp_bias = false;
  bool sinks = false; ///< gpt-oss: each head has a score of nothing, which takes its part of attention and adds nothing
  activation gate = activation::silu;
  double gate_limit = 7, gate_slope = 1.702; ///< of activation::clamped
  bool scaled_embeddings = false;            ///< Gemma: times the root of `hidden`, rounded to their type
  bool norms_less_one = false;               ///< Gemma: the files say of a norm's weights how much they are above one
  bool post_norms = false; ///< Gemma: what attention and MLP add to the residual stream is normed, too
  double query_scalar = 0; ///< Gemma's query_pre_attn_scalar, by whose root scores are divided; 0: head_size
  std::optional<std::uint32_t> sliding_window; ///< Mistral 7B v0.1: attention sees this many positions back
  /// Gemma, gpt-oss: of each layer whether it has the window; empty: all have it, where there is one.
  std::vector<bool> windowed;
  std::optional<rope_config> window_rope; ///< of layers with the window; absent: theirs is that of all
  data_type type = data_type::bf16;       ///< torch_dtype
  quantization_config quantization;       ///< of the files
  std::optional<protocols::token_id> bos;
  std::vector<protocols::token_id> eos; ///< from both files, without repeats
  /// Defaults of generation_config.json, absent where the file has none.
  std::optional<float> default_temperature;
  std::optional<float> default_top_p;
  std::optional<std::int32_t> default_top_k; ///< 0: all
  std::optional<float> default_min_p;
  std::optional<float> default_repetition_penalty;
};

/// How many positions a layer of the whole model sees, its own included; 0: all before.
[[nodiscard]] std::uint32_t window_of(const config& model, std::uint32_t layer) noexcept;
/// Whether it turns queries and keys by `window_rope`.
[[nodiscard]] bool has_window_rope(const config& model, std::uint32_t layer) noexcept;
/// Whether the files have a part that sees images, beside the text's, which alone is served.
[[nodiscard]] bool leaves_images_aside(const config& model) noexcept;
/// What scores are multiplied by.
[[nodiscard]] float attention_scale(const config& model) noexcept;

} // namespace godwit::gpu::model
