#include "model/config_reader.hpp"

#include "model/json_reader.hpp"
#include "model/quantization_reader.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

namespace godwit::gpu::model {

namespace json = boost::json;

namespace {

constexpr std::size_t config_bytes_max = 1U << 20U;
constexpr std::uint32_t vocabulary_max = 1U << 22U;
constexpr std::uint32_t hidden_max = 1U << 16U;
constexpr std::uint32_t intermediate_max = 1U << 20U;
constexpr std::uint32_t layers_max = 1024;
constexpr std::uint32_t heads_max = 1024;
constexpr std::uint32_t head_size_max = 1024;
constexpr std::uint32_t experts_max = 1024;
constexpr std::uint32_t positions_limit = 1U << 24U;
constexpr std::size_t eos_max = 64;
// transformers' MistralConfig and Qwen3Config, when the key is absent
constexpr std::uint32_t mistral_default_window = 4096;
constexpr std::uint32_t qwen3_default_head_size = 128;

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
                                   known_architecture{"Phi3ForCausalLM", family::phi3}};
constexpr auto supported_architectures = "supported: LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM, "
                                         "Qwen2ForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, Phi3ForCausalLM";

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

/// It stands in the configuration itself or, in newer files, with what else is said of rotation.
void refuse_partial_rotation(const json_reader& in) {
  if (in.number("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0)
    in.fail("partial_rotary_factor", "rotating part of a head is not supported; supported: 1");
}

void refuse_what_would_be_wrong(const json_reader& in) {
  if (const auto act = in.text("hidden_act"); act && *act != "silu")
    in.fail("hidden_act", in_quotes(*act) + " is not supported; supported: \"silu\"");
  refuse_partial_rotation(in);
}

void read_sizes(const json_reader& in, config& out) {
  out.vocabulary = in.count("vocab_size", 1, vocabulary_max);
  out.hidden = in.count("hidden_size", 1, hidden_max);
  out.intermediate = in.count("intermediate_size", 1, intermediate_max);
  out.layers = in.count("num_hidden_layers", 1, layers_max);
  out.heads = in.count("num_attention_heads", 1, heads_max);
  // Only Llama's and Phi-3's default is "as many as heads"; the others' are numbers that fit one model.
  out.kv_heads = out.kind == family::llama || out.kind == family::phi3
                     ? in.count("num_key_value_heads", 1, heads_max, out.heads)
                     : in.count("num_key_value_heads", 1, heads_max);
  if (out.heads % out.kv_heads != 0)
    in.fail("num_key_value_heads", "must divide num_attention_heads (" + std::to_string(out.heads) + ")");
  if (in.has("head_dim") || out.kind == family::qwen3) {
    out.head_size = in.count("head_dim", 2, head_size_max, qwen3_default_head_size);
  } else {
    if (out.hidden % out.heads != 0)
      in.fail("num_attention_heads", "must divide hidden_size (" + std::to_string(out.hidden) + ")");
    out.head_size = out.hidden / out.heads;
  }
  if (out.head_size < 2 || out.head_size > head_size_max || out.head_size % 2 != 0)
    in.fail("head_dim",
            "must be even and at most " + std::to_string(head_size_max) + ", is " + std::to_string(out.head_size));
  out.positions_max = in.count("max_position_embeddings", 1, positions_limit);
  out.rms_norm_epsilon =
      in.number("rms_norm_eps", 0.0, 1.0, out.kind == family::mixtral || out.kind == family::phi3 ? 1e-5 : 1e-6);
}

bool are_equal(const boost::json::value& a, const boost::json::value& b) {
  return a.is_number() && b.is_number() ? a.to_number<double>() == b.to_number<double>() : a == b;
}

/// Who adds the older object to a newer file means something by it.
void refuse_two_rotations(const json_reader& in, const json_reader& newer) {
  const auto older = in.object("rope_scaling");
  if (!older) return;
  for (const auto& field : older->fields()) {
    const std::string_view name(field.key().data(), field.key().size());
    const auto* same = newer.find(name == "type" ? "rope_type" : name);
    if (!same) same = newer.find(name);
    if (!field.value().is_null() && (!same || !are_equal(*same, field.value())))
      older->fail(name, "differs from \"rope_parameters\", which is what counts; leave \"rope_scaling\" out or change "
                        "\"rope_parameters\"");
  }
}

constexpr double rope_factor_max = 1e6;

/// The file says what the model had before it was stretched; vLLM multiplies, too.
void stretch(config& out, double positions) {
  out.positions_max = static_cast<std::uint32_t>(std::min(positions, static_cast<double>(positions_limit)));
}

void read_linear(const json_reader& in, config& out) {
  out.rope.factor = in.number("factor", 1.0, rope_factor_max);
  stretch(out, out.positions_max * out.rope.factor);
}

void read_llama3(const json_reader& in, config& out) {
  auto& rope = out.rope;
  rope.factor = in.number("factor", 1.0, rope_factor_max);
  rope.low_frequency_factor = in.number("low_freq_factor", 1e-6, rope_factor_max);
  rope.high_frequency_factor = in.number("high_freq_factor", 1e-6, rope_factor_max);
  rope.original_positions = in.count("original_max_position_embeddings", 1, positions_limit);
  if (rope.high_frequency_factor <= rope.low_frequency_factor)
    in.fail("high_freq_factor", "must be above low_freq_factor");
}

double yarn_scale(double factor, double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; }

/// As transformers reads it, and vLLM what both have: the context is the original one times the factor, whatever
/// max_position_embeddings says; attention_factor is what the file says, or what the paper's equation (22) gives.
void read_yarn(const json_reader& in, config& out) {
  auto& rope = out.rope;
  rope.factor = in.number("factor", 1.0, rope_factor_max);
  rope.original_positions = in.count("original_max_position_embeddings", 1, positions_limit, out.positions_max);
  rope.fast_rotations = in.number("beta_fast", 1e-6, rope_factor_max, rope.fast_rotations);
  rope.slow_rotations = in.number("beta_slow", 1e-6, rope_factor_max, rope.slow_rotations);
  if (rope.fast_rotations <= rope.slow_rotations) in.fail("beta_fast", "must be above beta_slow");
  if (rope.theta <= 1.0) in.fail("rope_type", "\"yarn\" needs a rope_theta above 1");
  rope.whole_pairs = in.flag("truncate", true);
  const double weight = in.number("mscale", 0.0, rope_factor_max, 0.0);
  const double weight_of_all = in.number("mscale_all_dim", 0.0, rope_factor_max, 0.0);
  const double usual = weight > 0 && weight_of_all > 0
                           ? yarn_scale(rope.factor, weight) / yarn_scale(rope.factor, weight_of_all)
                           : yarn_scale(rope.factor, 1.0);
  rope.attention_factor = in.number("attention_factor", 1e-6, rope_factor_max, usual);
  // vLLM's own names, which transformers does not know.
  for (const auto* name : {"attn_factor", "extrapolation_factor"})
    if (in.number(name, 0.0, rope_factor_max, 1.0) != 1.0)
      in.fail(name, "other than 1 is not supported; \"attention_factor\" is");
  if (!in.flag("apply_yarn_scaling", true)) in.fail("apply_yarn_scaling", "false is not supported; supported: true");
  stretch(out, rope.original_positions * rope.factor);
}

/// Older files: rope_theta beside rope_scaling {"type" or "rope_type"}; newer ones: all of it in rope_parameters.
void read_rope(const json_reader& in, config& out) {
  constexpr double theta_max = 1e12;
  constexpr auto supported = R"(supported: "default", "linear", "llama3", "yarn")";
  out.rope.theta = in.number("rope_theta", 1.0, theta_max, out.kind == family::mixtral ? 1e6 : out.rope.theta);
  auto scaling = in.object("rope_parameters");
  if (scaling) refuse_two_rotations(in, *scaling);
  if (!scaling) scaling = in.object("rope_scaling");
  if (!scaling) return;
  out.rope.theta = scaling->number("rope_theta", 1.0, theta_max, out.rope.theta);
  refuse_partial_rotation(*scaling);
  const auto newer = scaling->text("rope_type"), older = scaling->text("type");
  if (newer && older && *newer != *older)
    scaling->fail("type", in_quotes(*older) + " is not what \"rope_type\" says, " + in_quotes(*newer));
  const auto kind = newer ? newer : older;
  if (!kind) scaling->fail("rope_type", std::string("is missing; ") + supported);
  if (*kind == "default") return;
  struct reader {
    std::string_view name;
    rope_config::scaling_kind kind;
    void (*read)(const json_reader&, config&);
  };
  for (const auto& known : {reader{"linear", rope_config::scaling_kind::linear, read_linear},
                            reader{"llama3", rope_config::scaling_kind::llama3, read_llama3},
                            reader{"yarn", rope_config::scaling_kind::yarn, read_yarn}})
    if (*kind == known.name) {
      out.rope.scaling = known.kind;
      return known.read(*scaling, out);
    }
  scaling->fail("rope_type", in_quotes(*kind) + " is not supported; " + supported);
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
  const json_reader in(value, "config.json");
  config out;
  read_architecture(in, out);
  refuse_what_would_be_wrong(in);
  read_sizes(in, out);
  read_mixture(in, out);
  read_rope(in, out);
  read_extras(in, out);
  read_window(in, out);
  read_type(in, out, type_given);
  out.quantization = read_quantization(in);
  read_special(in, out);

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
