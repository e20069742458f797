#include "cuda/device_model.hpp"

#include "cpu/model_tensors.hpp"
#include "cpu/packing.hpp"
#include "cpu/rope.hpp"
#include "cuda/simt_numbers.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

using model::data_type;
using model::tensor_view;

constexpr std::uint64_t alignment = 256;
constexpr std::uint32_t multiple = 8; // of rows and columns, as the products' kernels have it
constexpr std::uint64_t staging_bytes = std::uint64_t{8} << 20U;

/// A tensor on its way to its place on the device.
struct shipment {
  const tensor_view* tensor;
  std::uint64_t at; ///< offset in the model's memory
};

/// Gives out places in the model's memory, first to learn its size.
class layout {
public:
  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t at = used_;
    used_ += (bytes + alignment - 1) / alignment * alignment;
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
  divides("hidden_size", c.hidden, multiple);
  divides("intermediate_size", c.intermediate, multiple);
  constexpr std::array head_sizes{16U, 32U, 64U, 80U, 96U, 128U};
  if (std::ranges::find(head_sizes, c.head_size) == head_sizes.end())
    throw std::runtime_error("config.json: head_dim = " + std::to_string(c.head_size) +
                             " is none of 16, 32, 64, 80, 96, 128, for which the CUDA kernels are made; --device cpu "
                             "serves this model");
}

/// What matrices are kept in: as in the files where the kernels know it.
data_type device_type(cpu::storage kind) { return kind == cpu::storage::f16 ? data_type::f16 : data_type::bf16; }

/// `count` values of `tensor` from `first` on, as `type`.
void convert(const tensor_view& tensor, data_type type, std::uint64_t first, std::uint64_t count, std::byte* to) {
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

/// Two pieces of pinned memory in turn: one is filled while the other travels.
class uploader {
public:
  explicit uploader(driver& to) : stream_(to.make_stream(stream_priority::low)) {
    for (auto& half : halves_) {
      half.memory = to.allocate_pinned(staging_bytes, "loading a model");
      half.travelled = to.make_event();
    }
  }
  void fill_with_zeros(std::byte* to, std::uint64_t bytes) { stream_->fill(to, 0, bytes); }
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

  /// Tensors one behind the other, as one.
  const void* place(std::initializer_list<const tensor_view*> parts, std::uint64_t more_values = 0) {
    if (*parts.begin() == nullptr) return nullptr;
    std::uint64_t values = more_values;
    for (const auto* part : parts) values += values_of(*part);
    std::uint64_t at = space_.take(values * 2);
    const auto* address = reinterpret_cast<const void*>(base_ + at);
    for (const auto* part : parts) {
      shipments_.push_back({part, at});
      at += values_of(*part) * 2;
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
    const auto& c = model_.config;
    for (const auto& t : tensors.layers) {
      device_layer layer;
      layer.attention_norm = place({t.attention_norm});
      layer.qkv = place({t.query, t.key, t.value});
      layer.qkv_bias = place({t.query_bias, t.key_bias, t.value_bias});
      layer.output = place({t.output});
      layer.output_bias = place({t.output_bias});
      layer.mlp_norm = place({t.mlp_norm});
      layer.gate_up = place({t.gate, t.up});
      layer.gate_up_bias = place({t.gate_bias, t.up_bias});
      layer.down = place({t.down});
      layer.down_bias = place({t.down_bias});
      model_.layers.push_back(layer);
    }
    model_.final_norm = place({tensors.final_norm});
    const std::uint64_t padding = std::uint64_t{model_.logits_stride - c.vocabulary} * c.hidden;
    model_.head = place({tensors.head != nullptr ? tensors.head : tensors.embeddings}, padding);
    model_.embeddings = tensors.head != nullptr ? place({tensors.embeddings}) : model_.head;
    const std::uint64_t angles = std::uint64_t{c.positions_max} * (c.head_size / 2) * sizeof(float);
    model_.cosine = static_cast<const float*>(take(angles));
    model_.sine = static_cast<const float*>(take(angles));
  }

private:
  static std::uint64_t values_of(const tensor_view& tensor) { return tensor.bytes / model::bytes_of(tensor.type); }

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
                                                 const model::weights& weights) {
  const auto tensors = cpu::find_tensors(config, weights);
  check_sizes(config);
  auto model = std::make_shared<device_model>();
  model->driver = std::move(to);
  model->config = config;
  model->type = device_type(tensors.kind);
  model->logits_stride = cpu::round_up(config.vocabulary, multiple);

  std::vector<shipment> shipments;
  placer places(*model, shipments);
  places.place_all(tensors); // from address zero, for the size
  model->bytes = places.used();
  model->memory = model->driver->allocate(model->bytes, "the model's weights");
  places.place_all(tensors);

  uploader way(*model->driver);
  if (model->logits_stride != config.vocabulary)
    way.fill_with_zeros(static_cast<std::byte*>(const_cast<void*>(model->head)),
                        std::uint64_t{model->logits_stride} * config.hidden * 2);
  for (const auto& one : shipments)
    way.send(model->memory.data() + one.at, one.tensor->bytes / model::bytes_of(one.tensor->type) * 2,
             [&](std::uint64_t at, std::uint64_t bytes, std::byte* into) {
               convert(*one.tensor, model->type, at / 2, bytes / 2, into);
             });
  send_angles(way, *model);
  way.finish();
  model->left_bytes = model->driver->memory().free_bytes;
  return model;
}

} // namespace godwit::gpu::cuda
