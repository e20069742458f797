#pragma once

#include "cpu/host_memory.hpp"
#include "cpu/packed_model.hpp"

#include <godwit/gpu/model/adapter.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace godwit::gpu::cpu {

/// The products of a layer, as the model has its matrices.
enum class layer_product : std::uint8_t { qkv, output, gate_up, down };
inline constexpr std::size_t layer_products = 4;

/// What an adapter adds to one of them: up (scale * (down a)). The updates of matrices that the model computes in one
/// product are one here, too: their ranks stand beside each other, and `up` is zero where rank and column are not of
/// the same matrix.
struct adapter_product {
  struct matrix {
    const std::byte* data = nullptr;
    std::uint32_t panels = 0, depth = 0; ///< depth: a multiple of 32
  };
  matrix down;              ///< columns: ranks, padded with zeros to a multiple of 16
  matrix up;                ///< columns as those of the model's matrix; depth: the ranks
  std::vector<float> scale; ///< of each rank
  [[nodiscard]] bool changes() const noexcept { return up.depth > 0; }
};

/// An adapter, or one device's part of it, packed for the kernels beside the model's weights. Immutable.
class packed_adapter {
public:
  std::vector<std::array<adapter_product, layer_products>> layers;
  std::uint32_t ranks_max = 0; ///< depth of the deepest `up`
  std::uint64_t bytes = 0;
  allocation memory;
};

/// One of each device that the model is divided among.
using adapter_parts = std::vector<std::shared_ptr<const packed_adapter>>;

/// Bytes that it takes.
[[nodiscard]] std::uint64_t adapter_bytes(const packed_model& model, const model::adapter& from);
/// For the part of the model that `model` is: of matrices that make something the rows of `up`, of those that sum it
/// up the columns of `down`. Values are rounded to the type of the model's weights. Throws out_of_memory.
[[nodiscard]] std::shared_ptr<const packed_adapter> pack_adapter(const packed_model& model, const model::adapter& from);

} // namespace godwit::gpu::cpu
