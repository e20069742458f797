#pragma once

#include <godwit/gpu/model/config.hpp>

#include <cstdint>

namespace godwit::gpu::cuda {

enum class copy_route : std::uint8_t { within_device, to_device, from_device };

/// Attention of a batch that decodes, over KV in 16-token blocks that lie in no order.
struct attention_shape {
  std::uint32_t batch = 1;
  std::uint32_t context = 1024;
  std::uint32_t heads = 32;
  std::uint32_t kv_heads = 8;
  std::uint32_t head_size = 128;
  bool deterministic = false;
};

/// y = x * w^T: x [rows][depth], w [columns][depth], both bf16.
struct product_shape {
  std::uint32_t rows = 1;
  std::uint32_t columns = 1;
  std::uint32_t depth = 1;
  model::data_type y_type = model::data_type::f32; ///< or bf16
  bool fixed = false;                              ///< by the kernel of deterministic mode rather than by cuBLASLt
};

/// What a device does by itself, for benchmarks: what steps are held against. bf16, of random numbers. Each call gives
/// the seconds of one run on the device, the median of `runs` after a warm-up. Throws std::runtime_error.
class cuda_probe {
public:
  virtual ~cuda_probe() = default;
  /// Page-locked memory on the host's side.
  [[nodiscard]] virtual double copy(copy_route route, std::uint64_t bytes, std::uint32_t runs) = 0;
  [[nodiscard]] virtual double product(const product_shape& shape, std::uint32_t runs) = 0;
  /// Runs go through several caches of the shape in turn, more than the device's second-level cache holds. The median
  /// is of groups of five runs.
  [[nodiscard]] virtual double attention(const attention_shape& shape, std::uint32_t runs) = 0;
};

} // namespace godwit::gpu::cuda
