#include "model/config_limits.hpp"
#include "model/gguf_blocks.hpp"
#include "model/gguf_model.hpp"
#include "model/json_reader.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace godwit::gpu::model {

namespace json = boost::json;

namespace {

constexpr auto frequencies = "rope_freqs.weight";
constexpr std::string_view gpt_oss = "gpt-oss";

struct gguf_architecture {
  std::string_view name; ///< general.architecture
  std::string_view as;   ///< Hugging Face's
};
constexpr std::array gguf_architectures{
    gguf_architecture{"llama", "LlamaForCausalLM"},   gguf_architecture{"qwen2", "Qwen2ForCausalLM"},
    gguf_architecture{"qwen3", "Qwen3ForCausalLM"},   gguf_architecture{"qwen3moe", "Qwen3MoeForCausalLM"},
    gguf_architecture{"phi3", "Phi3ForCausalLM"},     gguf_architecture{"gemma3", "Gemma3ForCausalLM"},
    gguf_architecture{"gpt-oss", "GptOssForCausalLM"}};

/// The keys of one architecture, and what config.json calls them.
class config_writer {
public:
  explicit config_writer(const gguf_model& model) : model_(model), head_(model.head()) {
    if (const auto kind = head_.text("general.type").value_or("model"); kind != "model")
      head_.fail("general.type", "is " + in_quotes(kind) + "; \"model\" is supported");
    const auto name = head_.text("general.architecture");
    if (!name) throw model_error(head_.name(), "has no \"general.architecture\"; is it a model's file?");
    const auto* const known = std::ranges::find(gguf_architectures, *name, &gguf_architecture::name);
    if (known == gguf_architectures.end()) {
      std::string all;
      for (const auto& one : gguf_architectures) all += (all.empty() ? "" : ", ") + in_quotes(one.name);
      head_.fail("general.architecture", "is " + in_quotes(*name) + ", which is not supported; supported: " + all);
    }
    prefix_ = *name;
    if (!head_.flag(key("attention.causal")).value_or(true) || integer("pooling_type").value_or(0) != 0)
      head_.fail("general.architecture", "is of a model that makes embeddings of texts, not answers");
    const bool mixtral = *name == "llama" && integer("expert_count").value_or(0) > 0;
    out_["architectures"] = json::array{mixtral ? "MixtralForCausalLM" : known->as};
  }

  std::string write() {
    sizes();
    experts();
    extras();
    rope();
    tokens();
    return json::serialize(out_);
  }

private:
  [[nodiscard]] std::string key(std::string_view name) const { return prefix_ + "." + std::string(name); }
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name) const { return head_.integer(key(name)); }
  [[nodiscard]] std::optional<double> number(std::string_view name) const { return head_.number(key(name)); }
  [[nodiscard]] std::int64_t required(std::string_view name) const {
    const auto value = integer(name);
    if (!value) throw model_error(head_.name(), in_quotes(key(name)) + " is missing");
    if (*value < 1) head_.fail(key(name), "must be at least 1");
    return *value;
  }
  /// One for all layers, however it is written.
  [[nodiscard]] std::int64_t same_in_all_layers(std::string_view name) const {
    const auto name_of = key(name);
    if (!head_.is_array(name_of)) return required(name);
    const auto all = head_.numbers(name_of).value_or(std::vector<double>{});
    if (all.empty() || std::ranges::count(all, all.front()) != static_cast<std::ptrdiff_t>(all.size()) ||
        all.front() < 1 || all.front() > 1e9)
      head_.fail(name_of, "differs from layer to layer, which is not supported");
    return static_cast<std::int64_t>(all.front());
  }
  [[nodiscard]] bool has_tensor(std::string_view name) const { return model_.find(name) != nullptr; }

  void sizes() {
    const auto* embeddings = model_.find("token_embd.weight");
    if (embeddings == nullptr || embeddings->shape.size() != 2)
      throw model_error(head_.name(), "has no tensor \"token_embd.weight\" of two dimensions");
    out_["vocab_size"] = embeddings->shape[0];
    out_["hidden_size"] = required("embedding_length");
    out_["num_hidden_layers"] = required("block_count");
    out_["intermediate_size"] = same_in_all_layers("feed_forward_length");
    const auto heads = same_in_all_layers("attention.head_count");
    out_["num_attention_heads"] = heads;
    out_["num_key_value_heads"] =
        head_.has(key("attention.head_count_kv")) ? same_in_all_layers("attention.head_count_kv") : heads;
    const auto hidden = required("embedding_length");
    head_size_ = integer("attention.key_length").value_or(hidden / heads);
    if (integer("attention.value_length").value_or(head_size_) != head_size_)
      head_.fail(key("attention.value_length"), "differs from attention.key_length, which is not supported");
    if (integer("rope.dimension_count").value_or(head_size_) != head_size_)
      head_.fail(key("rope.dimension_count"), "is not the size of a head, " + std::to_string(head_size_) +
                                                  ": rotating part of a head is not supported");
    out_["head_dim"] = head_size_;
    out_["max_position_embeddings"] = required("context_length");
    const auto epsilon = number("attention.layer_norm_rms_epsilon");
    if (!epsilon) throw model_error(head_.name(), in_quotes(key("attention.layer_norm_rms_epsilon")) + " is missing");
    out_["rms_norm_eps"] = *epsilon;
  }

  void experts() {
    const auto count = integer("expert_count").value_or(0);
    if (count == 0) return;
    if (integer("expert_shared_count").value_or(0) != 0 ||
        integer("expert_shared_feed_forward_length").value_or(0) != 0)
      head_.fail(key("expert_shared_count"), "shared experts are not supported");
    out_["num_local_experts"] = count; // Mixtral
    out_["num_experts"] = count;       // Qwen3-MoE
    out_["num_experts_per_tok"] = required("expert_used_count");
    out_["norm_topk_prob"] = true; // as llama.cpp has both
    if (const auto inner = integer("expert_feed_forward_length"))
      out_[prefix_ == gpt_oss ? "intermediate_size" : "moe_intermediate_size"] = *inner;
  }

  void extras() {
    out_["attention_bias"] = has_tensor("blk.0.attn_q.bias");
    out_["mlp_bias"] = has_tensor("blk.0.ffn_gate.bias");
    out_["tie_word_embeddings"] = !has_tensor("output.weight");
    const auto window = integer("attention.sliding_window").value_or(0);
    out_["sliding_window"] = nullptr;
    if (window > 0 && prefix_ == "phi3") out_["sliding_window"] = window; // as Hugging Face has it; llama.cpp has none
    if (prefix_ == "gemma3") gemma(window);
    if (prefix_ == gpt_oss) every_other_layer(window);
  }

  /// gpt-oss's layers, of which the first has the window.
  void every_other_layer(std::int64_t window) {
    if (window > 0) out_["sliding_window"] = window;
    if (head_.is_array(key("attention.sliding_window_pattern")) ||
        integer("attention.sliding_window_pattern").value_or(2) != 2)
      head_.fail(key("attention.sliding_window_pattern"), "other than 2 is not supported");
    json::array types;
    const auto layers = std::min<std::int64_t>(required("block_count"), layers_max + 1); // more are refused
    for (std::int64_t i = 0; i < layers; ++i)
      types.emplace_back(i % 2 == 0 && window > 0 ? "sliding_attention" : "full_attention");
    out_["layer_types"] = std::move(types);
    if (number("rope.freq_base_swa").value_or(number("rope.freq_base").value_or(10000.0)) !=
        number("rope.freq_base").value_or(10000.0))
      head_.fail(key("rope.freq_base_swa"), "other than rope.freq_base is not supported");
  }

  /// What llama.cpp knows of Gemma 3 without a word in the file.
  void gemma(std::int64_t window) {
    if (window > 0) out_["sliding_window"] = window;
    if (head_.is_array(key("attention.sliding_window_pattern")))
      head_.fail(key("attention.sliding_window_pattern"), "for each layer is not supported");
    out_["sliding_window_pattern"] = window > 0 ? integer("attention.sliding_window_pattern").value_or(6) : 1;
    out_["rope_local_base_freq"] = number("rope.freq_base_swa").value_or(10000.0);
    constexpr std::int64_t layers_of_27b = 62;
    const bool by_hidden = required("block_count") == layers_of_27b;
    out_["query_pre_attn_scalar"] =
        by_hidden ? required("embedding_length") / same_in_all_layers("attention.head_count") : head_size_;
    for (const auto* name : {"attn_logit_softcapping", "final_logit_softcapping"})
      if (number(name).value_or(0.0) != 0.0) head_.fail(key(name), "is not supported");
  }

  void rope() {
    out_["rope_theta"] = number("rope.freq_base").value_or(10000.0);
    for (const auto* name : {"rope_factors_long.weight", "rope_factors_short.weight"})
      if (has_tensor(name)) throw model_error(head_.name(), in_quotes(name) + ": longrope is not supported");
    for (const auto* name :
         {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor"})
      if (number(name).value_or(1.0) != 1.0) head_.fail(key(name), "other than 1 is not supported");
    auto factor = number("rope.scaling.factor").value_or(number("rope.scale_linear").value_or(1.0));
    if (factor == 0.0) factor = 1.0; // as llama.cpp has it
    const auto kind = head_.text(key("rope.scaling.type")).value_or(factor == 1.0 ? "none" : "linear");
    if (kind == "none" && prefix_ == gpt_oss) out_["rope_scaling"] = json::object{{"rope_type", "default"}};
    if (kind == "none") return;
    if (has_tensor(frequencies))
      head_.fail(key("rope.scaling.type"),
                 std::string("stands beside ") + in_quotes(frequencies) + ", which says another");
    json::object scaling{{"rope_type", kind}, {"factor", factor}};
    if (kind == "yarn") {
      if (const auto length = integer("rope.scaling.original_context_length"))
        scaling["original_max_position_embeddings"] = *length;
      if (const auto fast = number("rope.scaling.yarn_beta_fast")) scaling["beta_fast"] = *fast;
      if (const auto slow = number("rope.scaling.yarn_beta_slow")) scaling["beta_slow"] = *slow;
      if (prefix_ == gpt_oss) scaling["truncate"] = false; // as it was trained, which the files do not say
    }
    out_["rope_scaling"] = std::move(scaling);
  }

  /// A token's id; one that is none is not there, as llama.cpp has it.
  [[nodiscard]] std::optional<std::int64_t> token(std::string_view name, std::size_t count) const {
    const auto id = head_.integer("tokenizer.ggml." + std::string(name) + "_token_id");
    return id && *id >= 0 && static_cast<std::uint64_t>(*id) < count ? id : std::nullopt;
  }
  void tokens() {
    const auto texts = head_.texts("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>{});
    if (const auto bos = token("bos", texts.size())) out_["bos_token_id"] = *bos;
    json::array ends;
    const auto add = [&](std::int64_t id) {
      if (std::ranges::find(ends, json::value(id)) == ends.end()) ends.emplace_back(id);
    };
    for (const auto* name : {"eos", "eot", "eom"})
      if (const auto id = token(name, texts.size())) add(*id);
    for (const auto id : gguf_ends(texts)) add(static_cast<std::int64_t>(id));
    if (!ends.empty()) out_["eos_token_id"] = std::move(ends);
  }

  const gguf_model& model_;
  const gguf_file& head_;
  std::string prefix_;
  std::int64_t head_size_ = 0;
  json::object out_;
};

/// What the matrices are that are not in codes, where those are of one type; else F32, as which nothing is rounded.
/// Norms and routers do not count: they are F32 in all files, and routers have been 16 bits before.
data_type type_of(const gguf_model& model) {
  std::optional<data_type> out;
  for (const auto& part : model.parts())
    for (const auto& [name, tensor] : part.tensors()) {
      const auto type = plain_type_of(tensor.type);
      const bool matrix = tensor.shape.size() > 1 && !name.ends_with(".bias"); // experts' biases have two dimensions
      if (!type || !matrix || name.ends_with("ffn_gate_inp.weight")) continue;
      if (out.value_or(*type) != *type) return data_type::f32;
      out = type;
    }
  return out.value_or(data_type::bf16);
}

} // namespace

std::string gguf_config_json(const gguf_model& model) { return config_writer(model).write(); }

std::string gguf_generation_config_json(const gguf_file& head) {
  constexpr std::array names{std::pair{"temp", "temperature"}, std::pair{"top_p", "top_p"}, std::pair{"top_k", "top_k"},
                             std::pair{"min_p", "min_p"}, std::pair{"penalty_repeat", "repetition_penalty"}};
  json::object out;
  for (const auto& [ours, theirs] : names)
    if (const auto value = head.number("general.sampling." + std::string(ours))) {
      if (*value == std::floor(*value) && std::abs(*value) < 1e9)
        out[theirs] = static_cast<std::int64_t>(*value);
      else
        out[theirs] = *value;
    }
  return json::serialize(out);
}

void complete_gguf_config(const gguf_model& model, config& out) {
  out.type = type_of(model);
  out.norms_less_one = false; // llama.cpp's files have the whole of Gemma's norms
  for (const auto& part : model.parts())
    for (const auto& [name, tensor] : part.tensors())
      if (block_of(tensor.type) && !plain_type_of(tensor.type))
        out.quantization.method = quantization_config::method_kind::gguf;
  const auto* factors = model.find(frequencies);
  if (factors == nullptr) return;
  const auto type = plain_type_of(factors->type);
  if (type != data_type::f32 || factors->shape != std::vector<std::uint64_t>{out.head_size / 2})
    model.head().fail(frequencies, "must be F32, one for each pair of a head");
  out.rope.scaling = rope_config::scaling_kind::factors;
  for (std::uint32_t pair = 0; pair < out.head_size / 2; ++pair) {
    float factor = 0;
    std::memcpy(&factor, factors->bytes.data() + pair * sizeof factor, sizeof factor);
    if (!(factor > 0) || !std::isfinite(factor)) model.head().fail(frequencies, "must be of numbers above 0");
    out.rope.factors.push_back(factor);
  }
}

} // namespace godwit::gpu::model
