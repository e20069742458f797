#include <godwit/gpu/model/adapter.hpp>

#include "model/adapter_names.hpp"
#include "model/json_reader.hpp"
#include "model/safetensors.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

namespace godwit::gpu::model {

namespace {

std::span<const std::byte> file_of(const file_source& files, const char* name, const char* otherwise = "") {
  const auto found = files.find(name);
  if (!found) throw model_error(files.name(), std::string(name) + " is missing" + otherwise);
  return *found;
}

/// What the configuration says of how matrices are scaled.
struct scaling {
  double alpha = 0;
  bool by_root = false;     ///< alpha / sqrt(rank) (rsLoRA) instead of alpha / rank
  std::uint32_t rank = 0;   ///< of all matrices, unless ...
  bool other_ranks = false; ///< ... some have others

  [[nodiscard]] float of(std::uint32_t own_rank) const {
    return static_cast<float>(alpha / (by_root ? std::sqrt(static_cast<double>(own_rank)) : own_rank));
  }
};

bool is_empty(const json_reader& in, std::string_view field) {
  const auto* const value = in.find(field);
  if (value == nullptr) return true;
  if (const auto* const list = value->if_array()) return list->empty();
  if (const auto* const object = value->if_object()) return object->empty();
  return false;
}

/// Kinds of adapters that compute something else say so in fields of their own, and there are more with each version of
/// PEFT: what is not known to mean nothing here must be absent, null, false, empty or a number.
void refuse_unknown(const json_reader& in) {
  constexpr std::array<std::string_view, 27> known{"auto_mapping",
                                                   "base_model_name_or_path",
                                                   "bias",
                                                   "corda_config",
                                                   "eva_config",
                                                   "exclude_modules",
                                                   "inference_mode",
                                                   "init_lora_weights",
                                                   "layers_pattern",
                                                   "layers_to_transform",
                                                   "loftq_config",
                                                   "lora_alpha",
                                                   "lora_dropout",
                                                   "megatron_config",
                                                   "megatron_core",
                                                   "peft_type",
                                                   "peft_version",
                                                   "r",
                                                   "rank_pattern",
                                                   "revision",
                                                   "runtime_config",
                                                   "target_modules",
                                                   "task_type",
                                                   "use_rslora",
                                                   "alpha_pattern",
                                                   "modules_to_save",
                                                   "layer_replication"}; // these three are looked at below
  for (const auto& field : in.fields()) {
    const std::string_view name(field.key().data(), field.key().size());
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto& value = field.value();
    const bool says = (value.is_bool() && value.get_bool()) || (value.is_string() && !value.get_string().empty()) ||
                      (value.is_array() && !value.get_array().empty()) ||
                      (value.is_object() && !value.get_object().empty());
    if (says) in.fail(in_quotes(name), "is not supported; only plain low-rank updates (LoRA) are");
  }
}

scaling read_config(std::span<const std::byte> bytes, const std::string& file) {
  const auto value = parse_json(as_text(bytes), file, adapter_config_bytes_max);
  const json_reader in(value, file);
  if (const auto type = in.required_text("peft_type"); type != "LORA")
    in.fail("peft_type", in_quotes(type) + " is not supported; only \"LORA\" is");
  refuse_unknown(in);
  if (const auto bias = in.text("bias"); bias && *bias != "none")
    in.fail("bias", in_quotes(*bias) + " is not supported; train the adapter with \"none\"");
  for (const auto* field : {"modules_to_save", "alpha_pattern", "layer_replication"})
    if (!is_empty(in, field)) in.fail(field, "is not supported; only low-rank updates with one alpha are");
  if (const auto* const how = in.find("init_lora_weights"); how != nullptr && how->is_string())
    for (const std::string_view changes : {"pissa", "olora", "corda", "loftq", "lora_ga"})
      if (in.text("init_lora_weights")->starts_with(changes))
        in.fail("init_lora_weights",
                in_quotes(changes) + " changes the model's own weights; save the adapter converted to plain LoRA");
  scaling out;
  out.rank = in.count("r", 1, adapter_rank_max);
  out.alpha = in.number("lora_alpha", 0, 1e6);
  out.by_root = in.flag("use_rslora", false);
  out.other_ranks = !is_empty(in, "rank_pattern");
  return out;
}

struct tensor_place {
  std::uint32_t layer = 0;
  projection which = projection::query;
  bool is_b = false;
};

/// Absent: no such tensor belongs to a low-rank update of a layer's matrices.
std::optional<tensor_place> place_of(std::string_view name) {
  // The others are of the text's part of models that see, too, as newer and older files name it.
  constexpr std::array<std::string_view, 3> befores{"base_model.model.model.layers.",
                                                    "base_model.model.model.language_model.layers.",
                                                    "base_model.model.language_model.model.layers."};
  const auto* const before = std::ranges::find_if(befores, [&](std::string_view one) { return name.starts_with(one); });
  if (before == befores.end()) return std::nullopt;
  tensor_place place;
  const auto rest = name.substr(before->size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), place.layer);
  if (error != std::errc{}) return std::nullopt;
  for (std::size_t i = 0; i < projections; ++i)
    for (const char matrix : {'A', 'B'}) {
      place.which = static_cast<projection>(i);
      place.is_b = matrix == 'B';
      if (adapter_tensor(place.layer, place.which, matrix) == std::string(befores.front()) + std::string(rest))
        return place;
    }
  return std::nullopt;
}

} // namespace

std::string_view adapter_module(projection which) noexcept {
  constexpr std::array<std::string_view, projections> names{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                            "gate_proj", "up_proj", "down_proj"};
  return names[static_cast<std::size_t>(which)];
}

std::string adapter_tensor(std::uint32_t layer, projection which, char matrix) {
  const auto* const block = which >= projection::gate ? ".mlp." : ".self_attn.";
  return "base_model.model.model.layers." + std::to_string(layer) + block + std::string(adapter_module(which)) +
         ".lora_" + matrix + ".weight";
}

std::pair<std::uint64_t, std::uint64_t> shape_of(const config& model, projection which) noexcept {
  const std::uint64_t queries = std::uint64_t{model.heads} * model.head_size;
  const std::uint64_t keys = std::uint64_t{model.kv_heads} * model.head_size;
  switch (which) {
  case projection::query:
    return {queries, model.hidden};
  case projection::key:
  case projection::value:
    return {keys, model.hidden};
  case projection::output:
    return {model.hidden, queries};
  case projection::gate:
  case projection::up:
    return {model.intermediate, model.hidden};
  case projection::down:
    break;
  }
  return {model.hidden, model.intermediate};
}

adapter read_adapter(std::shared_ptr<const file_source> files, const config& configuration) {
  const auto config_file = files->name() + "/" + adapter_config_file;
  const auto tensors_file = files->name() + "/" + adapter_tensors_file;
  const auto how = read_config(file_of(*files, adapter_config_file), config_file);
  const auto bytes = file_of(*files, adapter_tensors_file, "; save the adapter with safe_serialization=True");
  adapter out;
  out.layers.resize(configuration.layers);
  for (auto& tensor : read_safetensors(bytes, tensors_file)) {
    const auto fail = [&](const std::string& why) { throw model_error(tensors_file, in_quotes(tensor.name) + why); };
    const auto place = place_of(tensor.name);
    if (!place)
      fail(configuration.mixture.experts > 0
               ? " is not supported; of a mixture of experts adapters may change q, k, v and o projections"
               : " is not supported; adapters may change q, k, v, o, gate, up and down projections of layers");
    if (!tensor.unsupported.empty())
      fail(" is of type " + in_quotes(tensor.unsupported) + "; supported: BF16, F16, F32");
    if (place->layer >= configuration.layers)
      fail(": the model has " + std::to_string(configuration.layers) + " layers");
    if (configuration.mixture.experts > 0 && place->which >= projection::gate)
      fail(" is not supported; of a mixture of experts adapters may change q, k, v and o projections");
    const auto [outputs, inputs] = shape_of(configuration, place->which);
    auto& update = out.layers[place->layer][static_cast<std::size_t>(place->which)];
    const auto& shape = tensor.view.shape;
    const std::size_t rank_at = place->is_b ? 1 : 0;
    if (shape.size() != 2 || shape[1 - rank_at] != (place->is_b ? outputs : inputs))
      fail(": its shape is not that of this model's matrix, " + std::to_string(outputs) + " x " +
           std::to_string(inputs) + "; it was trained for another model");
    if (shape[rank_at] == 0 || shape[rank_at] > adapter_rank_max)
      fail(": a rank is 1 to " + std::to_string(adapter_rank_max));
    const auto rank = static_cast<std::uint32_t>(shape[rank_at]);
    if (!how.other_ranks && rank != how.rank)
      fail(": its rank is " + std::to_string(rank) + ", and " + adapter_config_file + " says " +
           std::to_string(how.rank));
    if (update.rank != 0 && update.rank != rank) fail(": its rank is not that of its other half");
    update.rank = rank;
    update.scale = how.of(rank);
    (place->is_b ? update.b : update.a) = std::move(tensor.view);
    out.rank_max = std::max(out.rank_max, rank);
  }
  for (std::uint32_t layer = 0; layer < configuration.layers; ++layer)
    for (std::size_t i = 0; i < projections; ++i)
      if (const auto& update = out.layers[layer][i];
          update.rank != 0 && (update.a.data == nullptr || update.b.data == nullptr))
        throw model_error(tensors_file, in_quotes(adapter_tensor(layer, static_cast<projection>(i),
                                                                 update.a.data == nullptr ? 'A' : 'B')) +
                                            " is missing");
  if (out.rank_max == 0) throw model_error(tensors_file, "has no tensors");
  out.files = std::move(files);
  return out;
}

} // namespace godwit::gpu::model
