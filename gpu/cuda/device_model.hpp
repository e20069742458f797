#pragma once

#include "cuda/driver.hpp"
#include "cuda/product_ways.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>
#include <godwit/gpu/model/config.hpp>
#include <godwit/gpu/model/weights.hpp>
#include <godwit/gpu/pipeline.hpp>
#include <godwit/gpu/tensor_parallel.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace godwit::gpu::cuda {

/// Addresses of one layer's weights; biases and the norms of heads are null where the model has none. Sizes are those
/// of the device's part.
struct device_layer {
  const void* attention_norm = nullptr;
  const void* qkv = nullptr; ///< [(heads + 2 * kv heads) * head size][hidden]
  const void* qkv_bias = nullptr;
  const void* query_norm = nullptr; ///< [head size]
  const void* key_norm = nullptr;
  const void* output = nullptr; ///< [hidden][heads * head size]
  const void* output_bias = nullptr;
  const void* mlp_norm = nullptr;
  const void* gate_up = nullptr; ///< [2 * intermediate][hidden]: all gates, then all ups
  const void* gate_up_bias = nullptr;
  const void* down = nullptr; ///< [hidden][intermediate]
  const void* down_bias = nullptr;
  /// Of a mixture of experts, whose matrices lie one expert's after another's in `gate_up` and `down`: [router_rows]
  /// [hidden], rows behind the experts zero. Null: a plain MLP.
  const void* router = nullptr;
};

/// A model's weights on a device, or its part of them. A part is a smaller model, with fewer heads and an MLP of fewer
/// columns; where these are no multiple of what kernels take, zeros make it one.
class device_model final : public cuda_model {
public:
  [[nodiscard]] std::uint64_t weight_bytes() const noexcept override { return bytes; }

  std::shared_ptr<cuda::driver> driver;
  model::config whole;
  tensor_parallel::place part;
  pipeline::stage stage;
  model::config config; ///< of this part: its heads, its intermediate size, its layers, but the whole vocabulary
  model::data_type type = model::data_type::bf16; ///< of everything but the angles
  std::vector<device_layer> layers;
  const void* embeddings = nullptr; ///< [vocabulary][hidden]; null: the first layers are another stage's
  const void* head = nullptr;       ///< [head_rows][hidden]; rows behind the part's vocabulary are zero
  const void* final_norm = nullptr; ///< null, like the head, where the last layers are another stage's
  const float* cosine = nullptr;    ///< [positions][head size / 2]
  const float* sine = nullptr;
  std::uint32_t logits_stride = 0;    ///< the vocabulary, rounded up to what the kernels take
  std::uint32_t head_rows = 0;        ///< the largest part's, rounded up likewise
  std::uint32_t intermediate_max = 0; ///< of the parts
  std::uint32_t router_rows = 0;      ///< the experts, rounded up to what the kernels take; 0: there are none
  std::uint64_t bytes = 0;
  std::uint64_t left_bytes = 0; ///< on the device when the weights were there
  allocation memory;
  /// Of all executors of the model: an answer that one of them begins another one goes on with.
  std::shared_ptr<product_ways> ways = std::make_shared<product_ways>();

  [[nodiscard]] bool divided() const noexcept { return part.degree > 1; }
  /// Whether this device has a step's tokens.
  [[nodiscard]] bool draws() const noexcept { return part.rank == 0 && stage.ends(); }
  [[nodiscard]] std::uint32_t qkv_columns() const noexcept {
    return (config.heads + 2 * config.kv_heads) * config.head_size;
  }
};

/// Errors: as cuda_backend.
[[nodiscard]] std::shared_ptr<const device_model> upload_model(std::shared_ptr<driver> to, const model::config& config,
                                                               const model::weights& weights,
                                                               tensor_parallel::place part = {},
                                                               pipeline::stage stage = {});

} // namespace godwit::gpu::cuda
