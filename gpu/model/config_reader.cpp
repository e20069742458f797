#include "model/config_reader.hpp"

#include "model/config_limits.hpp"
#include "model/gemma_reader.hpp"
#include "model/gpt_oss_reader.hpp"
#include "model/json_reader.hpp"
#include "model/quantization_reader.hpp"
#include "model/rope_reader.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace godwit::gpu::model {

namespace json = boost::json;

namespace {

// transformers' MistralConfig, Qwen3Config, Gemma3TextConfig and GptOssConfig, when the key is absent
constexpr std::uint32_t mistral_default_window = 4096;
constexpr std::uint32_t qwen3_default_head_size = 128;
constexpr std::uint32_t gemma3_default_head_size = 256;
constexpr std::uint32_t gpt_oss_default_head_size = 64;

struct known_architecture {
  std::string_view name;
  family kind;
};
constexpr std::array architectures{known_architecture{"LlamaForCausalLM", family::llama},
                                   known_architecture{"MistralForCausalLM", family::mistral},
                                   known_architecture{"Qwen2ForCausalLM", family::qwen2},
                                   known_architecture{"Qwen3ForCausalLM", family::qwen3},
                                   known_architecture{"MixtralForCausalLM", family::mixtral},
                                   known_architecture{"Qwen3MoeForCausalLM", family::qwen3_moe},
                                   known_architecture{"Phi3ForCausalLM", family::phi3},
                                   known_architecture{"Gemma3ForCausalLM", family::gemma3},
                                   known_architecture{"Gemma3ForConditionalGeneration", family::gemma3},
                                   known_architecture{"GptOssForCausalLM", family::gpt_oss}};
constexpr auto supported_architectures =
    "supported: LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
    "Qwen3MoeForCausalLM, Phi3ForCausalLM, Gemma3ForCausalLM, Gemma3ForConditionalGeneration (its text), "
    "GptOssForCausalLM";

void read_architecture(const json_reader& in, config& out) {
  const auto* names = in.array("architectures");
  if (!names || names->empty()) in.fail("architectures", std::string("is missing; ") + supported_architectures);
  const auto* first = names->front().if_string();
  if (!first) in.fail("architectures", "must be an array of strings");
  const auto name = std::string_view(first->data(), first->size());
  const auto* const known =
      std::find_if(architectures.begin(), architectures.end(), [&](const auto& entry) { return entry.name == name; });
  if (known == architectures.end())
    in.fail("architectures", in_quotes(name) + " is not supported; " + supported_architectures);
  out.kind = known->kind;
  out.architecture = name;
}

void refuse_what_would_be_wrong(const json_reader& in, const config& out) {
  const bool gemma = out.kind == family::gemma3;
  const std::string_view known = gemma ? "gelu_pytorch_tanh" : "silu";
  const auto* const field = gemma ? "hidden_activation" : "hidden_act";
  if (const auto act = in.text(field); act && *act != known)
    in.fail(field, in_quotes(*act) + " is not supported; supported: " + in_quotes(known));
  refuse_partial_rotation(in);
}

/// What is meant where a file says nothing; 0: it must say it.
struct absent_sizes {
  std::uint32_t vocabulary = 0, hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0, positions = 0;
};
/// The others' defaults, too, are numbers that fit one model; but Gemma 3's files leave out what they agree with.
constexpr absent_sizes gemma3_sizes{262208, 2304, 9216, 26, 8, 4, 131072}; // transformers' Gemma3TextConfig

/// Where a file says nothing of a head's size; 0: what the heads share of the hidden size.
std::uint32_t absent_head_size(family kind) {
  if (kind == family::gemma3) return gemma3_default_head_size;
  if (kind == family::gpt_oss) return gpt_oss_default_head_size;
  return kind == family::qwen3 ? qwen3_default_head_size : 0;
}

void read_sizes(const json_reader& in, config& out) {
  const auto absent = out.kind == family::gemma3 ? gemma3_sizes : absent_sizes{};
  const auto size = [&in](const char* name, std::uint32_t most, std::uint32_t otherwise) {
    return otherwise != 0 ? in.count(name, 1, most, otherwise) : in.count(name, 1, most);
  };
  out.vocabulary = size("vocab_size", vocabulary_max, absent.vocabulary);
  out.hidden = size("hidden_size", hidden_max, absent.hidden);
  out.intermediate = size("intermediate_size", intermediate_max, absent.intermediate);
  out.layers = size("num_hidden_layers", layers_max, absent.layers);
  out.heads = size("num_attention_heads", heads_max, absent.heads);
  // Only Llama's and Phi-3's default is "as many as heads".
  const bool as_heads = out.kind == family::llama || out.kind == family::phi3;
  out.kv_heads = size("num_key_value_heads", heads_max, as_heads ? out.heads : absent.kv_heads);
  if (out.heads % out.kv_heads != 0)
    in.fail("num_key_value_heads", "must divide num_attention_heads (" + std::to_string(out.heads) + ")");
  if (const auto usual = absent_head_size(out.kind); in.has("head_dim") || usual != 0) {
    out.head_size = in.count("head_dim", 2, head_size_max, usual);
  } else {
    if (out.hidden % out.heads != 0)
      in.fail("num_attention_heads", "must divide hidden_size (" + std::to_string(out.hidden) + ")");
    out.head_size = out.hidden / out.heads;
  }
  if (out.head_size < 2 || out.head_size > head_size_max || out.head_size % 2 != 0)
    in.fail("head_dim",
            "must be even and at most " + std::to_string(head_size_max) + ", is " + std::to_string(out.head_size));
  out.positions_max = size("max_position_embeddings", positions_limit, absent.positions);
  out.rms_norm_epsilon =
      in.number("rms_norm_eps", 0.0, 1.0,
                out.kind == family::mixtral || out.kind == family::phi3 || out.kind == family::gpt_oss ? 1e-5 : 1e-6);
}

/// Qwen3-MoE may have a plain MLP in some of its layers.
void refuse_plain_layers(const json_reader& in) {
  if (in.count("decoder_sparse_step", 0, layers_max, 1) != 1)
    in.fail("decoder_sparse_step", "experts in some layers only are not supported; supported: 1");
  if (const auto* plain = in.array("mlp_only_layers"); plain != nullptr && !plain->empty())
    in.fail("mlp_only_layers", "experts in some layers only are not supported; supported: []");
}

/// Absent fields are what transformers' MixtralConfig and Qwen3MoeConfig have for them.
void read_mixture(const json_reader& in, config& out) {
  auto& mixture = out.mixture;
  if (out.kind == family::mixtral) {
    mixture.experts = in.count("num_local_experts", 1, experts_max, 8);
    mixture.chosen = in.count("num_experts_per_tok", 1, mixture.experts, std::min(2U, mixture.experts));
  } else if (out.kind == family::qwen3_moe) {
    refuse_plain_layers(in);
    mixture.experts = in.count("num_experts", 1, experts_max, 128);
    mixture.chosen = in.count("num_experts_per_tok", 1, mixture.experts, std::min(8U, mixture.experts));
    mixture.normed = in.flag("norm_topk_prob", false);
    out.intermediate = in.count("moe_intermediate_size", 1, intermediate_max, 768);
  }
}

/// What a layer has besides its matrices and the two norms of every family.
void read_extras(const json_reader& in, config& out) {
  if (out.kind == family::llama || out.kind == family::qwen3 || out.kind == family::qwen3_moe)
    out.qkv_bias = out.output_bias = in.flag("attention_bias", false);
  if (out.kind == family::llama) out.mlp_bias = in.flag("mlp_bias", false);
  if (out.kind == family::qwen2) out.qkv_bias = true;
  out.qk_norm = out.kind == family::qwen3 || out.kind == family::qwen3_moe;
  out.tied_embeddings = in.flag("tie_word_embeddings", false);
}

/// Which layers use the window, where the file says it of each (newer Qwen2 and Qwen3 files): all (true) or none.
std::optional<bool> windowed_layers(const json_reader& in, const config& out) {
  const auto* types = in.array("layer_types");
  if (!types) return std::nullopt;
  if (types->size() != out.layers)
    in.fail("layer_types", "has " + std::to_string(types->size()) + " entries for " + std::to_string(out.layers) +
                               " layers (num_hidden_layers)");
  const auto count = [types](std::string_view kind) {
    return static_cast<std::size_t>(std::count_if(types->begin(), types->end(), [kind](const json::value& one) {
      const auto* text = one.if_string();
      return text != nullptr && std::string_view(text->data(), text->size()) == kind;
    }));
  };
  const auto whole = count("full_attention"), windowed = count("sliding_attention");
  if (whole + windowed != types->size() || (whole != 0 && windowed != 0))
    in.fail("layer_types", "layers that differ are not supported; supported: all \"full_attention\" or all "
                           "\"sliding_attention\"");
  return windowed != 0;
}

void read_window(const json_reader& in, config& out) {
  const auto windowed = windowed_layers(in, out);
  if (out.kind == family::mistral || out.kind == family::mixtral || out.kind == family::phi3) {
    if (in.has("sliding_window"))
      out.sliding_window = in.count("sliding_window", 1, positions_limit);
    else if (out.kind == family::mistral && !in.has_key("sliding_window"))
      out.sliding_window = mistral_default_window;
  } else if (out.kind != family::llama && in.flag("use_sliding_window", false) &&
             (in.has("sliding_window") || !in.has_key("sliding_window"))) {
    const auto window = in.count("sliding_window", 1, positions_limit, 4096);
    // In Qwen2 and Qwen3 only the layers from max_window_layers on use the window, unless the file says it of each.
    // Both as transformers has them. Qwen3-MoE knows of no layers without it.
    const bool all = out.kind == family::qwen3_moe;
    const auto first = all ? 0 : in.count("max_window_layers", 0, positions_limit, 28);
    if (all || windowed.value_or(first == 0))
      out.sliding_window = window;
    else if (!windowed && first < out.layers)
      in.fail("max_window_layers", "a sliding window in some layers only is not supported; supported: 0 (all layers) "
                                   "or num_hidden_layers (none)");
  }
  if (windowed && *windowed != out.sliding_window.has_value())
    in.fail("layer_types", *windowed ? "calls for a sliding window, and \"sliding_window\" (with "
                                       "\"use_sliding_window\") gives none"
                                     : "calls for no sliding window, and \"sliding_window\" gives one");
}

void read_type(const json_reader& in, config& out, bool& given) {
  const auto newer = in.text("dtype");
  const auto name = newer ? newer : in.text("torch_dtype");
  given = name.has_value();
  if (!given) return;
  if (*name == "bfloat16")
    out.type = data_type::bf16;
  else if (*name == "float16")
    out.type = data_type::f16;
  else if (*name == "float32")
    out.type = data_type::f32;
  else
    in.fail(newer ? "dtype" : "torch_dtype",
            in_quotes(*name) + " is not supported; supported: \"bfloat16\", \"float16\", \"float32\"");
}

protocols::token_id token_of(const json_reader& in, std::string_view field, const json::value& value,
                             const config& out) {
  const auto id = integer_of(value);
  if (!id || *id < 0 || *id >= std::int64_t{out.vocabulary})
    in.fail(field, "must be an integer below vocab_size (" + std::to_string(out.vocabulary) + ")");
  return static_cast<protocols::token_id>(*id);
}

void read_special(const json_reader& in, config& out) {
  if (const auto* bos = in.find("bos_token_id"); bos && !bos->is_array())
    out.bos = token_of(in, "bos_token_id", *bos, out);
  const auto add = [&](const json::value& value) {
    const auto id = token_of(in, "eos_token_id", value, out);
    if (std::find(out.eos.begin(), out.eos.end(), id) == out.eos.end()) out.eos.push_back(id);
  };
  const auto* eos = in.find("eos_token_id");
  if (!eos) return;
  if (const auto* several = eos->if_array()) {
    if (several->size() > eos_max) in.fail("eos_token_id", "has more than " + std::to_string(eos_max) + " entries");
    for (const auto& one : *several) add(one);
  } else {
    add(*eos);
  }
}

} // namespace

config read_config(const file_source& files, bool& type_given) {
  const auto bytes = files.find("config.json");
  if (!bytes)
    throw model_error(in_quotes(files.name()), "has no config.json; a Hugging Face model directory has config.json, "
                                               "tokenizer.json and model.safetensors");
  const auto value = parse_json(as_text(*bytes), "config.json", config_bytes_max);
  const json_reader whole(value, "config.json");
  config out;
  read_architecture(whole, out);
  const auto in = text_part(whole, out);
  refuse_what_would_be_wrong(in, out);
  read_sizes(in, out);
  if (out.kind == family::gemma3) {
    read_gemma3(whole, in, out);
  } else if (out.kind == family::gpt_oss) {
    read_gpt_oss(in, out);
  } else {
    read_mixture(in, out);
    read_rope(in, out);
    read_extras(in, out);
    read_window(in, out);
  }
  read_type(in, out, type_given);
  if (!type_given) read_type(whole, out, type_given);
  out.quantization = read_quantization(whole);
  if (out.quantization.method == quantization_config::method_kind::mxfp4 && out.kind != family::gpt_oss)
    whole.fail("quantization_config", "quant_method \"mxfp4\" is supported of GptOssForCausalLM only");
  read_special(whole, out);
  if (leaves_images_aside(out)) read_special(in, out);
  if (out.kind == family::gemma3) complete_special(out);

  const auto generation = files.find("generation_config.json");
  if (!generation) return out;
  const auto defaults = parse_json(as_text(*generation), "generation_config.json", config_bytes_max);
  const json_reader more(defaults, "generation_config.json");
  read_special(more, out);
  if (more.has("temperature")) out.default_temperature = static_cast<float>(more.number("temperature", 0.0, 100.0));
  if (more.has("top_p")) out.default_top_p = static_cast<float>(more.number("top_p", 1e-6, 1.0));
  if (const auto* top_k = more.find("top_k"); top_k != nullptr && integer_of(*top_k) == -1)
    out.default_top_k = 0; // as vLLM has it
  else if (more.has("top_k"))
    out.default_top_k = static_cast<std::int32_t>(more.count("top_k", 0, vocabulary_max));
  if (more.has("min_p")) out.default_min_p = static_cast<float>(more.number("min_p", 0.0, 1.0));
  if (more.has("repetition_penalty"))
    out.default_repetition_penalty = static_cast<float>(more.number("repetition_penalty", 1e-6, 100.0));
  return out;
}

} // namespace godwit::gpu::model
