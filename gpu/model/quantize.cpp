#include <godwit/gpu/model/quantize.hpp>

#include "model/coded_matrix.hpp"
#include "model/gguf_blocks.hpp"
#include "model/tensor_list.hpp"
#include "model/text_map.hpp"
#include "model/widen.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

namespace {

using method_kind = quantization_config::method_kind;

/// Columns that share a scale.
constexpr std::uint64_t group_columns = 32;

/// A matrix of 16 or 32 bits, whose codes are computed as they are asked for.
class rounded_matrix final : public coded_matrix {
public:
  rounded_matrix(const tensor_view& from, rounding to)
      : coded_matrix({kind_of(to), from.shape[0], from.shape[1], group_columns, kind_of(to) == coding::int4, false,
                      rounds_activations(to)}),
        from_(from) {}

  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const override {
    for (std::size_t done = 0; done < out.size();) {
      const auto column = first + done, begin = column / group_columns * group_columns;
      const auto group = read(row, begin);
      const auto end = std::min<std::uint64_t>(begin + group.count, first + out.size());
      for (auto at = column; at < end; ++at) out[done++] = code_of(group.values[at - begin], group.unit);
    }
  }
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const override {
    return read(row, column / group_columns * group_columns).unit;
  }
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const override {
    return {{from_.data, static_cast<std::size_t>(from_.bytes)}};
  }

private:
  static coding kind_of(rounding to) {
    return to == rounding::int4 || to == rounding::q4_0 ? coding::int4 : coding::int8;
  }
  struct group_of_row {
    std::array<float, group_columns> values{};
    std::uint64_t count = 0;
    coded_matrix::unit unit;
  };
  [[nodiscard]] group_of_row read(std::uint64_t row, std::uint64_t begin) const {
    const auto columns = dimensions().columns;
    group_of_row out;
    out.count = std::min(group_columns, columns - begin);
    float farthest = 0;
    for (std::uint64_t i = 0; i < out.count; ++i) {
      const float value = widen(from_.type, from_.at(row, begin + i));
      out.values[i] = std::isfinite(value) ? value : 0.0F;
      if (std::abs(out.values[i]) > std::abs(farthest)) farthest = out.values[i];
    }
    const bool four = dimensions().kind == coding::int4;
    out.unit = {four ? farthest / -8.0F : std::abs(farthest) / 127.0F, four ? 8 : 0};
    return out;
  }
  [[nodiscard]] std::uint8_t code_of(float value, const unit& in) const {
    if (in.scale == 0.0F) return static_cast<std::uint8_t>(in.zero);
    const auto whole = static_cast<std::int32_t>(std::nearbyint(value / in.scale));
    const bool four = dimensions().kind == coding::int4;
    return static_cast<std::uint8_t>(four ? std::clamp(whole + 8, 0, 15) : std::clamp(whole, -127, 127));
  }

  tensor_view from_;
};

class rounded_weights final : public weights {
public:
  rounded_weights(std::shared_ptr<const weights> from, const config& configuration, rounding to)
      : from_(std::move(from)), total_bytes_(from_->total_bytes()) {
    for (const auto& need : tensors_of(configuration)) {
      const bool of_a_layer = need.role == tensor_role::projection || need.role == tensor_role::residual_projection;
      if (!of_a_layer || is_router(need, configuration)) continue;
      const auto* tensor = from_->find(need.name);
      if (tensor == nullptr || tensor->shape.size() != 2) continue;
      rounded_.push_back(std::make_unique<rounded_matrix>(*tensor, to));
      auto& view = tensors_[need.name];
      view = *tensor;
      view.data = nullptr;
      view.coded = rounded_.back().get();
    }
  }
  [[nodiscard]] const tensor_view* find(std::string_view name) const noexcept override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? from_->find(name) : &found->second;
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept override { return total_bytes_; }

private:
  /// Who is chosen hangs on small differences, and it is small.
  static bool is_router(const tensor_need& need, const config& c) {
    return c.mixture.experts > 0 && need.shape[0] == c.mixture.experts &&
           (need.name.ends_with(".gate.weight") || need.name.ends_with(".router.weight"));
  }

  std::shared_ptr<const weights> from_;
  std::vector<std::unique_ptr<rounded_matrix>> rounded_;
  text_map<tensor_view> tensors_;
  std::uint64_t total_bytes_;
};

const char* name_of(method_kind method) {
  switch (method) {
  case method_kind::none:
    return "";
  case method_kind::fp8:
    return "fp8";
  case method_kind::compressed:
    return "compressed-tensors";
  case method_kind::gptq:
    return "gptq";
  case method_kind::awq:
    return "awq";
  case method_kind::gguf:
    return "gguf";
  case method_kind::mxfp4:
    return "mxfp4";
  }
  return "";
}

/// "Q4_K, Q6_K, activations in eight bits (gguf)", what most values are in first.
std::string types_in_words(const model_directory& model) {
  std::map<std::uint32_t, std::uint64_t> values;
  for (const auto& need : tensors_of(model.configuration))
    if (const auto* tensor = model.tensors->find(need.name); tensor != nullptr && tensor->coded != nullptr)
      values[tensor->coded->dimensions().format] += elements_of(need);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> most;
  for (const auto& [type, count] : values) most.emplace_back(count, type);
  std::ranges::sort(most, std::greater{});
  std::string text;
  for (const auto& [count, type] : most)
    if (const auto block = block_of(type)) text += (text.empty() ? "" : ", ") + std::string(block->name);
  return text.empty() ? text : text + ", activations in eight bits (gguf)";
}

} // namespace

std::shared_ptr<const weights> quantize(std::shared_ptr<const weights> from, const config& configuration, rounding to) {
  if (to == rounding::none) return from;
  return std::make_shared<rounded_weights>(std::move(from), configuration, to);
}

model_directory quantize(model_directory model, rounding to) {
  if (to == rounding::none) return model;
  if (!quantization_in_words(model).empty())
    throw model_error(model.name, std::string("its weights are quantized already (") +
                                      name_of(model.configuration.quantization.method) + ")");
  model.tensors = quantize(model.tensors, model.configuration, to);
  return model;
}

bool has_kv_scales(const model_directory& model) {
  for (const auto* name : {"k_scale", "kv_scale", "k_proj.k_scale", "k_proj.output_scale"})
    if (model.tensors->find(std::string("model.layers.0.self_attn.") + name) != nullptr) return true;
  return false;
}

std::string quantization_in_words(const model_directory& model) {
  if (model.configuration.quantization.method == method_kind::gguf) return types_in_words(model);
  const coded_matrix* one = nullptr;
  for (const auto& need : tensors_of(model.configuration)) {
    const auto* tensor = model.tensors->find(need.name);
    if (tensor != nullptr && tensor->coded != nullptr) one = tensor->coded;
    if (one != nullptr) break;
  }
  if (one == nullptr) return {};
  const auto& is = one->dimensions();
  auto text = to_string(is.kind);
  if (is.group == 0)
    text += ", groups in the order of activations";
  else if (is.group < is.columns)
    text += " in groups of " + std::to_string(is.group);
  if (is.by_sums_of_codes) text += ", activations in eight bits";
  const auto method = model.configuration.quantization.method;
  return text +
         (method == method_kind::none ? " (rounded as it is loaded)" : std::string(" (") + name_of(method) + ")");
}

} // namespace godwit::gpu::model
