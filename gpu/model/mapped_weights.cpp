#include "model/coded_files.hpp"
#include "model/json_reader.hpp"
#include "model/safetensors.hpp"
#include "model/tensor_list.hpp"
#include "model/text_map.hpp"

#include <boost/json/object.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

namespace {

constexpr auto single_file = "model.safetensors";
constexpr auto index_file = "model.safetensors.index.json";
constexpr std::size_t index_bytes_max = 32U << 20U;
constexpr std::size_t shards_max = 4096;

class mapped_weights : public weights {
public:
  explicit mapped_weights(std::shared_ptr<const file_source> files) : files_(std::move(files)) {}

  const tensor_view* find(std::string_view name) const noexcept override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::uint64_t total_bytes() const noexcept override { return total_bytes_; }

  /// By the name that it has in a model of text.
  void add(const config& configuration, named_tensor tensor) {
    tensor.name = text_name(configuration, tensor.name);
    if (tensor.name.empty()) return;
    if (!tensor.unsupported.empty()) {
      other_tensor other{std::move(tensor.unsupported), std::move(tensor.view)};
      unsupported_.insert_or_assign(std::move(tensor.name), std::move(other));
      return;
    }
    total_bytes_ += tensor.view.bytes;
    tensors_.insert_or_assign(std::move(tensor.name), std::move(tensor.view));
  }

  /// Makes the matrices that the model consists of out of those that the files have, when all are there: out of codes,
  /// and out of matrices that have several of them.
  void find_matrices(const config& configuration, const std::string& file) {
    const auto needs = tensors_of(configuration);
    std::map<std::string_view, const tensor_need*> by_name;
    for (const auto& need : needs) by_name[need.name] = &need;
    for (const auto& fused : fused_tensors_of(configuration)) {
      std::vector<const tensor_need*> parts;
      for (const auto& part : fused.parts) parts.push_back(by_name.at(part + ".weight"));
      take_apart(configuration, fused.name, parts, file);
    }
    for (const auto& joined : joined_experts_of(configuration)) {
      const std::uint64_t inner = configuration.intermediate, hidden = configuration.hidden;
      const joined_matrix gate_up{joined.gate_up, 2 * inner, hidden, {&expert_names::gate, &expert_names::up}};
      const joined_matrix down{joined.down, hidden, inner, {&expert_names::down}};
      for (const auto& one : {gate_up, down}) take_experts_apart(configuration, joined.layer, one, file);
    }
    for (const auto& need : needs)
      if (need.shape.size() == 2 && need.role != tensor_role::embedding) // of which rows are looked up
        find_coded_matrix(configuration, need, file);
  }

  /// `file`: the one that says which tensors there are.
  void check(const config& configuration, const std::string& file) const {
    std::set<std::string_view> needed;
    const auto needs = tensors_of(configuration);
    for (const auto& need : needs) {
      needed.insert(need.name);
      (void)require(configuration, need, file);
    }
    const bool quantized = configuration.quantization.method != quantization_config::method_kind::none;
    std::set<std::string_view> others;
    const auto look = [&](std::string_view name) {
      // Older files keep the rotation's frequencies, which are computed here.
      const bool of_a_layer = name.starts_with("model.layers.") && !name.ends_with(".rotary_emb.inv_freq");
      if (of_a_layer && !needed.contains(name) && !made_of_.contains(name) && !(quantized && goes_with_codes(name)))
        others.insert(name);
    };
    for (const auto& [name, view] : tensors_) look(name);
    for (const auto& [name, other] : unsupported_) look(name);
    if (!others.empty())
      throw model_error(file,
                        in_quotes(*others.begin()) +
                            (others.size() > 1 ? " and " + std::to_string(others.size() - 1) + " more are" : " is") +
                            " in the file, and config.json calls for no such tensor (its flags of biases, "
                            "num_hidden_layers, architectures)");
  }

private:
  /// Says what is wrong where it is not there, of its type and shape.
  const tensor_view& require(const config& configuration, const tensor_need& need, const std::string& file) const {
    const auto* view = find(need.name);
    const auto calls = "config.json calls for " + spell(need.shape);
    if (const auto other = unsupported_.find(need.name); !view && other != unsupported_.end())
      throw model_error(file, in_quotes(need.name) + " is of type " + in_quotes(other->second.type) +
                                  "; supported: BF16, F16, F32");
    if (!view && configuration.quantization.method == quantization_config::method_kind::none)
      for (const auto* codes : {".qweight", ".weight_packed"}) {
        const auto name = need.name.substr(0, need.name.rfind('.')) + codes;
        if (unsupported_.contains(name))
          throw model_error(file, in_quotes(name) +
                                      " is of quantized weights, and config.json has no \"quantization_config\" "
                                      "that says of which kind");
      }
    if (!view) throw model_error(file, in_quotes(need.name) + " is missing; " + calls);
    if (view->shape != need.shape)
      throw model_error(file, in_quotes(need.name) + ": shape is " + spell(view->shape) + ", but " + calls);
    return *view;
  }

  void find_coded_matrix(const config& configuration, const tensor_need& need, const std::string& file) {
    if (configuration.quantization.method == quantization_config::method_kind::none || tensors_.contains(need.name))
      return;
    constexpr std::string_view ending = ".weight";
    const stored_lookup stored = [this](std::string_view name) { return find_stored(name); };
    auto found = find_coded(configuration.quantization, need.name.substr(0, need.name.size() - ending.size()),
                            need.shape[0], need.shape[1], stored, file);
    if (!found.matrix) return;
    for (auto& name : found.names) {
      if (const auto other = unsupported_.find(name); other != unsupported_.end())
        total_bytes_ += other->second.view.bytes;
      made_of_.insert(std::move(name));
    }
    put(need, type_around(configuration), std::move(found.matrix));
  }

  /// Of the tensors around those in codes.
  [[nodiscard]] data_type type_around(const config& configuration) const {
    const auto* around = find("model.embed_tokens.weight");
    return around != nullptr ? around->type : configuration.type;
  }

  void put(const tensor_need& need, data_type type, std::unique_ptr<coded_matrix> matrix) {
    tensors_[need.name] = {type, need.shape, nullptr, need.shape[0] * need.shape[1] * bytes_of(type), matrix.get()};
    coded_.push_back(std::move(matrix));
  }

  /// The tensors of `parts` are rows of the one that is called `name`.
  void take_apart(const config& configuration, const std::string& name, const std::vector<const tensor_need*>& parts,
                  const std::string& file) {
    tensor_need whole{name + ".weight", {0, parts.front()->shape[1]}, tensor_role::projection};
    for (const auto* part : parts) whole.shape[0] += part->shape[0];
    find_coded_matrix(configuration, whole, file);
    const auto* view = &require(configuration, whole, file);
    std::uint64_t row = 0;
    for (const auto* part : parts) {
      if (tensors_.contains(part->name) || unsupported_.contains(part->name))
        throw model_error(file, in_quotes(part->name) + " is in the file beside " + in_quotes(whole.name) +
                                    ", which has it, too");
      const auto rows = part->shape[0], bytes = view->bytes / whole.shape[0];
      if (view->coded != nullptr)
        put(*part, view->type, std::make_unique<coded_rows>(*view->coded, row, rows));
      else
        tensors_[part->name] = {view->type, part->shape, view->data + row * bytes, rows * bytes};
      row += rows;
    }
    made_of_.insert(whole.name);
  }

  /// Of all experts of a layer: as many rows of each part as of the others, in turn.
  struct joined_matrix {
    std::string name;
    std::uint64_t rows = 0, columns = 0; ///< of an expert
    std::vector<std::string expert_names::*> parts;
  };

  void take_experts_apart(const config& configuration, std::uint32_t layer, const joined_matrix& of,
                          const std::string& file) {
    const std::uint64_t experts = configuration.mixture.experts, step = of.parts.size(), rows = of.rows / step;
    const auto coded = find_codes_of_experts(configuration, of, file);
    const tensor_view* plain =
        coded ? nullptr
              : &require(configuration, {of.name, {experts, of.columns, of.rows}, tensor_role::projection}, file);
    const auto& biases = require(configuration, {of.name + "_bias", {experts, of.rows}, tensor_role::bias}, file);
    for (std::uint64_t expert = 0; expert < experts; ++expert) {
      const auto names = names_of_expert(configuration, layer, static_cast<std::uint32_t>(expert));
      for (std::uint64_t i = 0; i < step; ++i) {
        const auto name = names.*of.parts[i];
        const tensor_need need{name + ".weight", {rows, of.columns}, tensor_role::projection};
        for (const auto& other : {need.name, name + ".bias"})
          if (tensors_.contains(other))
            throw model_error(file, in_quotes(other) + " is in the file beside " + in_quotes(of.name) +
                                        ", which has it, too");
        if (coded) {
          put(need, type_around(configuration), mxfp4_matrix_of(*coded, expert, {i, step, rows}));
        } else {
          const auto size = bytes_of(plain->type);
          auto& view = tensors_[need.name];
          view = {plain->type, need.shape, plain->data + (expert * of.rows * of.columns + i) * size,
                  rows * of.columns * size};
          view.row_step = step;
          view.column_step = of.rows;
        }
        tensors_[name + ".bias"] = every(biases, expert * of.rows + i, step, rows);
      }
    }
    for (const auto* part : {"", "_bias"}) made_of_.insert(of.name + part);
  }

  [[nodiscard]] std::optional<mxfp4_experts> find_codes_of_experts(const config& configuration, const joined_matrix& of,
                                                                   const std::string& file) {
    const bool expected = configuration.quantization.method == quantization_config::method_kind::mxfp4;
    if (!expected && unsupported_.contains(of.name + "_blocks"))
      throw model_error(file, in_quotes(of.name + "_blocks") + " is of quantized weights, and config.json's "
                                                               "\"quantization_config\" has no quant_method \"mxfp4\"");
    if (!expected) return std::nullopt;
    const stored_lookup stored = [this](std::string_view name) { return find_stored(name); };
    auto found = find_mxfp4(of.name, configuration.mixture.experts, of.rows, of.columns, stored, file);
    if (!found) return found;
    if (find(of.name) != nullptr)
      throw model_error(file, in_quotes(of.name) + " is in the file beside " + in_quotes(of.name + "_blocks") +
                                  ", which has it, too");
    for (const auto* part : {"_blocks", "_scales"}) made_of_.insert(of.name + part);
    total_bytes_ += found->blocks.bytes.size() + found->scales.bytes.size();
    return found;
  }

  /// Some values of a tensor, as a vector of their own.
  tensor_view every(const tensor_view& of, std::uint64_t first, std::uint64_t step, std::uint64_t count) {
    const auto size = bytes_of(of.type);
    auto& copy = copies_.emplace_back(count * size);
    for (std::uint64_t i = 0; i < count; ++i)
      std::memcpy(copy.data() + i * size, of.data + (first + i * step) * size, size);
    return {of.type, {count}, copy.data(), copy.size()};
  }

  /// Of a type that no tensor of a model has as it is.
  struct other_tensor {
    std::string type;
    tensor_view view;
  };

  [[nodiscard]] std::optional<stored_tensor> find_stored(std::string_view name) const {
    if (const auto other = unsupported_.find(name); other != unsupported_.end())
      return stored_tensor{other->second.type, other->second.view.shape, bytes_of_view(other->second.view)};
    const auto* view = find(name);
    if (view == nullptr || view->coded != nullptr) return std::nullopt;
    const auto* const type = view->type == data_type::bf16 ? "BF16" : view->type == data_type::f16 ? "F16" : "F32";
    return stored_tensor{type, view->shape, bytes_of_view(*view)};
  }
  static std::span<const std::byte> bytes_of_view(const tensor_view& view) { return {view.data, view.bytes}; }

  /// What tools leave beside quantized weights, and changes nothing here: scales of KV and of attention, which are kept
  /// as they are; biases that add nothing, which AutoGPTQ gives to every layer.
  [[nodiscard]] bool goes_with_codes(std::string_view name) const {
    for (const auto* scale : {".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".prob_output_scale", ".output_scale",
                              ".k_zero_point", ".v_zero_point", ".activation_scale"})
      if (name.ends_with(scale)) return true;
    const auto* view = name.ends_with(".bias") ? find(name) : nullptr;
    return view != nullptr && view->coded == nullptr &&
           std::ranges::all_of(bytes_of_view(*view), [](std::byte one) { return one == std::byte{}; });
  }

  static std::string spell(const std::vector<std::uint64_t>& shape) {
    std::string text = "[";
    for (const auto dimension : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(dimension);
    return text + "]";
  }

  std::shared_ptr<const file_source> files_;
  text_map<tensor_view> tensors_;
  text_map<other_tensor> unsupported_;
  std::vector<std::unique_ptr<coded_matrix>> coded_;
  std::deque<std::vector<std::byte>> copies_;
  std::set<std::string, std::less<>> made_of_; ///< names of tensors that others are made of
  std::uint64_t total_bytes_ = 0;
};

/// Shard -> the tensors that the index expects there.
using shard_map = std::map<std::string, text_map<bool>, std::less<>>;

shard_map read_index(std::span<const std::byte> bytes) {
  const auto value = parse_json(as_text(bytes), index_file, index_bytes_max);
  const auto in = json_reader(value, index_file).required_object("weight_map");
  shard_map shards;
  for (const auto& field : in.fields()) {
    const std::string tensor(field.key().data(), field.key().size());
    const auto shard = in.required_text(tensor);
    shards[std::string(shard)].emplace(tensor, false);
    if (shards.size() > shards_max)
      throw model_error(index_file, "weight_map: names more than " + std::to_string(shards_max) + " files");
  }
  return shards;
}

} // namespace

std::shared_ptr<const weights> read_weights(std::shared_ptr<const file_source> files, const config& configuration) {
  auto out = std::make_shared<mapped_weights>(files);
  if (const auto bytes = files->find(single_file)) {
    for (auto& tensor : read_safetensors(*bytes, single_file)) out->add(configuration, std::move(tensor));
    out->find_matrices(configuration, single_file);
    out->check(configuration, single_file);
    return out;
  }
  const auto index = files->find(index_file);
  if (!index)
    throw model_error(in_quotes(files->name()),
                      std::string("has neither ") + single_file + " nor " + index_file + "; only safetensors are read");
  for (auto& [shard, expected] : read_index(*index)) {
    const auto bytes = files->find(shard);
    if (!bytes)
      throw model_error(index_file, "weight_map: there is no file " + in_quotes(shard) +
                                        (shard.find('/') == std::string::npos ? "" : "; shards lie beside the index"));
    for (auto& tensor : read_safetensors(*bytes, in_quotes(shard))) {
      const auto wanted = expected.find(tensor.name);
      if (wanted == expected.end()) continue;
      wanted->second = true;
      out->add(configuration, std::move(tensor));
    }
    for (const auto& [tensor, found] : expected)
      if (!found) throw model_error(index_file, "weight_map: " + in_quotes(tensor) + " is not in " + in_quotes(shard));
  }
  out->find_matrices(configuration, index_file);
  out->check(configuration, index_file);
  return out;
}

} // namespace godwit::gpu::model
