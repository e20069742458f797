#include "cuda/device_model.hpp"

#include "cpu/model_tensors.hpp"
#include "cpu/packing.hpp"
#include "cpu/rope.hpp"
#include "cuda/kernels.hpp"
#include "cuda/simt_numbers.hpp"
#include "model/coded_matrix.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

using model::data_type;
using model::tensor_view;

constexpr std::uint64_t piece_alignment = 256;
constexpr std::uint32_t multiple = 8; // of rows and columns, as the products' kernels have it
constexpr std::uint64_t staging_bytes = std::uint64_t{8} << 20U;

using tensor_parallel::range;

std::uint32_t width_of(const tensor_view& tensor) { return static_cast<std::uint32_t>(tensor.shape.back()); }

/// Some columns of some rows of a tensor, a vector being one row. On the device `height` rows of `width`: zeros follow.
struct piece {
  const tensor_view* tensor = nullptr; ///< null: the model has none
  range rows, columns;
  std::uint32_t height = 0, width = 0;

  [[nodiscard]] std::uint64_t values() const noexcept { return std::uint64_t{height} * width; }
};

piece all_of(const tensor_view* tensor) {
  if (tensor == nullptr) return {};
  const auto rows = tensor->shape.size() > 1 ? static_cast<std::uint32_t>(tensor->shape.front()) : 1;
  return {tensor, {0, rows}, {0, width_of(*tensor)}, rows, width_of(*tensor)};
}
piece columns_of(const tensor_view* tensor, range columns, std::uint32_t width) {
  auto some = all_of(tensor);
  some.columns = columns;
  some.width = width;
  return some;
}
/// Elements, where it is a vector.
piece rows_of(const tensor_view* tensor, range rows, std::uint32_t height) {
  if (tensor != nullptr && tensor->shape.size() == 1) return columns_of(tensor, rows, height);
  auto some = all_of(tensor);
  some.rows = rows;
  some.height = height;
  return some;
}
piece rows_of(const tensor_view* tensor, range rows) { return rows_of(tensor, rows, rows.count); }

/// A piece on its way to its place on the device.
struct shipment {
  piece what;
  std::uint64_t at; ///< offset in the model's memory
};

/// Gives out places in the model's memory, first to learn its size.
class layout {
public:
  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t at = used_;
    used_ += (bytes + piece_alignment - 1) / piece_alignment * piece_alignment;
    return at;
  }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_; }

private:
  std::uint64_t used_ = 0;
};

void check_sizes(const model::config& c) {
  const auto divides = [](const char* name, std::uint32_t value, std::uint32_t by) {
    if (value % by != 0)
      throw std::runtime_error("config.json: " + std::string(name) + " = " + std::to_string(value) +
                               " is no multiple of " + std::to_string(by) +
                               ", for which the CUDA kernels are made; --device cpu serves this model");
  };
  if (c.kind == model::family::gemma3)
    throw std::runtime_error("config.json: architectures: the CUDA kernels have no " + c.architecture +
                             " (norms of what is added, windows in some layers); --device cpu serves this model");
  if (c.kind == model::family::gpt_oss)
    throw std::runtime_error("config.json: architectures: the CUDA kernels have no " + c.architecture +
                             " (sinks, biases of experts, windows in some layers); --device cpu serves this model");
  divides("hidden_size", c.hidden, multiple);
  divides(c.kind == model::family::qwen3_moe ? "moe_intermediate_size" : "intermediate_size", c.intermediate, multiple);
  constexpr std::array head_sizes{16U, 32U, 64U, 80U, 96U, 128U};
  if (std::ranges::find(head_sizes, c.head_size) == head_sizes.end())
    throw std::runtime_error("config.json: head_dim = " + std::to_string(c.head_size) +
                             " is none of 16, 32, 64, 80, 96, 128, for which the CUDA kernels are made; --device cpu "
                             "serves this model");
  if (c.vocabulary > vocabulary_max)
    throw std::runtime_error("config.json: vocab_size = " + std::to_string(c.vocabulary) + " is more than " +
                             std::to_string(vocabulary_max) +
                             ", for which the CUDA kernels are made; --device cpu serves this model");
}

/// What matrices are kept in: as in the files where the kernels know it.
data_type device_type(cpu::storage kind) { return kind == cpu::storage::f16 ? data_type::f16 : data_type::bf16; }

/// `count` values of `tensor` from `first` on, as `type`.
void convert(const tensor_view& tensor, data_type type, std::uint64_t first, std::uint64_t count, std::byte* to) {
  if (tensor.coded != nullptr) { // which are kept as what they mean; of one row
    std::vector<float> values(count);
    tensor.coded->values(first / width_of(tensor), first % width_of(tensor), values);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint16_t narrow =
          type == data_type::bf16 ? simt::numbers::to_bf16(values[i]) : simt::numbers::to_f16(values[i]);
      std::memcpy(to + i * 2, &narrow, 2);
    }
    return;
  }
  const std::byte* from = tensor.data + first * model::bytes_of(tensor.type);
  if (tensor.type == type) {
    std::memcpy(to, from, count * 2);
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const float value = cpu::widen(tensor.type, from + i * model::bytes_of(tensor.type));
    const std::uint16_t narrow = type == data_type::bf16 ? simt::numbers::to_bf16(value) : simt::numbers::to_f16(value);
    std::memcpy(to + i * 2, &narrow, 2);
  }
}

/// `count` values of what is on the device, from `first` on, row by row.
void convert(const piece& what, data_type type, std::uint64_t first, std::uint64_t count, std::byte* to) {
  for (const std::uint64_t end = first + count; first < end;) {
    const std::uint64_t row = first / what.width, column = first % what.width;
    const std::uint64_t some = std::min(what.width - column, end - first);
    const std::uint64_t there = row < what.rows.count && column < what.columns.count
                                    ? std::min<std::uint64_t>(some, what.columns.count - column)
                                    : 0;
    const std::uint64_t from = (what.rows.first + row) * width_of(*what.tensor) + what.columns.first + column;
    if (there > 0) convert(*what.tensor, type, from, there, to);
    std::memset(to + there * 2, 0, (some - there) * 2);
    to += some * 2;
    first += some;
  }
}

/// Two pieces of pinned memory in turn: one is filled while the other travels.
class uploader {
public:
  explicit uploader(driver& to) : stream_(to.make_stream(stream_priority::low)) {
    for (auto& half : halves_) {
      half.memory = to.allocate_pinned(staging_bytes, "loading a model");
      half.travelled = to.make_event();
    }
  }
  /// Sends `bytes`; `fill(first, count, into)` writes a part of them.
  template <class Fill> void send(std::byte* to, std::uint64_t bytes, const Fill& fill) {
    for (std::uint64_t at = 0; at < bytes; at += staging_bytes) {
      auto& half = halves_[next_++ % halves_.size()];
      half.travelled->synchronize();
      const std::uint64_t some = std::min(staging_bytes, bytes - at);
      fill(at, some, half.memory.data());
      stream_->copy(to + at, half.memory.data(), some);
      stream_->record(*half.travelled);
    }
  }
  void finish() { stream_->synchronize(); }

private:
  struct staging {
    allocation memory;
    std::unique_ptr<driver_event> travelled;
  };
  std::array<staging, 2> halves_;
  std::uint64_t next_ = 0;
  std::unique_ptr<driver_stream> stream_; // goes first: it waits
};

class placer {
public:
  placer(device_model& model, std::vector<shipment>& shipments) : model_(model), shipments_(shipments) {}

  /// Pieces one behind the other, as one.
  const void* place(std::initializer_list<piece> parts) { return place(std::span(parts.begin(), parts.size())); }
  const void* place(std::span<const piece> parts) {
    if (parts.empty() || parts.front().tensor == nullptr) return nullptr;
    std::uint64_t values = 0;
    for (const auto& part : parts) values += part.values();
    std::uint64_t at = space_.take(values * 2);
    const auto* address = reinterpret_cast<const void*>(base_ + at);
    for (const auto& part : parts) {
      shipments_.push_back({part, at});
      at += part.values() * 2;
    }
    return address;
  }
  const void* take(std::uint64_t bytes) { return reinterpret_cast<const void*>(base_ + space_.take(bytes)); }
  [[nodiscard]] std::uint64_t used() const noexcept { return space_.used(); }

  void place_all(const cpu::model_tensors& tensors) {
    space_ = {};
    base_ = reinterpret_cast<std::uintptr_t>(model_.memory.data());
    shipments_.clear();
    model_.layers.clear();
    const auto& c = model_.config; // of this part
    const auto [queries, keys, inner, vocabulary] = tensor_parallel::part_of(model_.whole, model_.part);
    for (const auto& t : std::span(tensors.layers).subspan(model_.stage.first, c.layers)) {
      device_layer layer;
      layer.attention_norm = place({all_of(t.attention_norm)});
      layer.qkv = place({rows_of(t.query, queries), rows_of(t.key, keys), rows_of(t.value, keys)});
      layer.qkv_bias = place({rows_of(t.query_bias, queries), rows_of(t.key_bias, keys), rows_of(t.value_bias, keys)});
      layer.query_norm = place({all_of(t.query_norm)});
      layer.key_norm = place({all_of(t.key_norm)});
      layer.output = place({columns_of(t.output, queries, queries.count)});
      layer.output_bias = place({all_of(t.output_bias)}); // of the sum
      layer.mlp_norm = place({all_of(t.mlp_norm)});
      if (t.experts.empty()) {
        layer.gate_up = place({rows_of(t.gate, inner, c.intermediate), rows_of(t.up, inner, c.intermediate)});
        layer.down = place({columns_of(t.down, inner, c.intermediate)});
      } else {
        place_experts(t, inner, layer);
      }
      layer.gate_up_bias =
          place({rows_of(t.gate_bias, inner, c.intermediate), rows_of(t.up_bias, inner, c.intermediate)});
      layer.down_bias = place({all_of(t.down_bias)});
      model_.layers.push_back(layer);
    }
    if (model_.stage.ends()) {
      model_.final_norm = place({all_of(tensors.final_norm)});
      const auto* head = tensors.head != nullptr ? tensors.head : tensors.embeddings;
      model_.head = place({rows_of(head, vocabulary, model_.head_rows)});
    }
    const bool shared = tensors.head == nullptr && !model_.divided() && model_.stage.ends();
    if (model_.stage.begins()) model_.embeddings = shared ? model_.head : place({all_of(tensors.embeddings)});
    const std::uint64_t angles = std::uint64_t{c.positions_max} * (c.head_size / 2) * sizeof(float);
    model_.cosine = static_cast<const float*>(take(angles));
    model_.sine = static_cast<const float*>(take(angles));
  }

private:
  void place_experts(const cpu::layer_tensors& t, range inner, device_layer& layer) {
    const auto width = model_.config.intermediate;
    layer.router = place({rows_of(t.router, {0, model_.config.mixture.experts}, model_.router_rows)});
    std::vector<piece> gate_up, down;
    for (const auto& expert : t.experts) {
      gate_up.push_back(rows_of(expert.gate, inner, width));
      gate_up.push_back(rows_of(expert.up, inner, width));
      down.push_back(columns_of(expert.down, inner, width));
    }
    layer.gate_up = place(gate_up);
    layer.down = place(down);
  }

  device_model& model_;
  std::vector<shipment>& shipments_;
  layout space_;
  std::uintptr_t base_ = 0;
};

void send_angles(uploader& way, const device_model& model) {
  const cpu::rope_angles angles(model.config);
  const std::uint64_t half = angles.half(), bytes = std::uint64_t{model.config.positions_max} * half * sizeof(float);
  std::vector<float> cosine(half), sine(half);
  const auto send = [&](const float* to, const std::vector<float>& row) {
    way.send(reinterpret_cast<std::byte*>(const_cast<float*>(to)), bytes,
             [&](std::uint64_t at, std::uint64_t count, std::byte* into) {
               // The staging memory holds a whole number of rows of a power of two; others are cut anywhere.
               for (std::uint64_t i = at / sizeof(float); i < (at + count) / sizeof(float);) {
                 angles.at(static_cast<std::uint32_t>(i / half), cosine.data(), sine.data());
                 const std::uint64_t until = std::min((i / half + 1) * half, (at + count) / sizeof(float));
                 std::memcpy(into + i * sizeof(float) - at, row.data() + i % half, (until - i) * sizeof(float));
                 i = until;
               }
             });
  };
  send(model.cosine, cosine);
  send(model.sine, sine);
}

} // namespace

std::shared_ptr<const device_model> upload_model(std::shared_ptr<driver> to, const model::config& config,
                                                 const model::weights& weights, tensor_parallel::place part,
                                                 pipeline::stage stage) {
  const auto tensors = cpu::find_tensors(config, weights);
  check_sizes(config);
  if (auto wrong = tensor_parallel::refuse_degree(config, part.degree); !wrong.empty()) throw std::runtime_error(wrong);
  const auto own = tensor_parallel::part_of(config, part), largest = tensor_parallel::part_of(config, {0, part.degree});
  auto model = std::make_shared<device_model>();
  model->driver = std::move(to);
  model->whole = config;
  model->part = part;
  model->stage = stage;
  model->config = config;
  model->config.layers = stage.layers_of(config.layers);
  model->config.heads = config.heads / part.degree;
  model->config.kv_heads = config.kv_heads / part.degree;
  model->config.intermediate = cpu::round_up(own.inner.count, multiple);
  model->type = device_type(tensors.kind);
  model->logits_stride = cpu::round_up(config.vocabulary, multiple);
  model->head_rows = cpu::round_up(largest.vocabulary.count, multiple);
  model->intermediate_max = cpu::round_up(largest.inner.count, multiple);
  model->router_rows = cpu::round_up(config.mixture.experts, multiple);

  std::vector<shipment> shipments;
  placer places(*model, shipments);
  places.place_all(tensors); // from address zero, for the size
  model->bytes = places.used();
  model->memory = model->driver->allocate(model->bytes, part.degree > 1 || stage.stages > 1
                                                            ? "a device's part of the model's weights"
                                                            : "the model's weights");
  places.place_all(tensors);

  uploader way(*model->driver);
  for (const auto& one : shipments)
    way.send(model->memory.data() + one.at, one.what.values() * 2,
             [&](std::uint64_t at, std::uint64_t bytes, std::byte* into) {
               convert(one.what, model->type, at / 2, bytes / 2, into);
             });
  send_angles(way, *model);
  way.finish();
  model->left_bytes = model->driver->memory().free_bytes;
  return model;
}

} // namespace godwit::gpu::cuda
