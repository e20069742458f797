#pragma once

#include "cuda/device_model.hpp"
#include "cuda/driver.hpp"
#include "cuda/kernels.hpp"
#include "cuda/kv_extents.hpp"

#include <godwit/gpu/cuda/cuda_backend.hpp>

#include <cstdint>
#include <string>

namespace godwit::gpu::cuda {

/// The paged KV cache on a device: layer after layer, in each block after block, in each K [kv head][16 tokens][head
/// size], then V the same. A block's K and V of one layer lie together.
class kv_pool {
public:
  /// Of a device's heads. Without memory yet.
  explicit kv_pool(const device_model& model);
  /// How many blocks there are to be by the settings and by what the device has left. Throws out_of_memory for none.
  [[nodiscard]] std::uint32_t wanted(const cuda_executor_settings& settings) const;
  /// Zeroed: what is read beyond a request's end may be anything but NaN. Throws out_of_memory.
  void take(std::uint32_t blocks);

  [[nodiscard]] std::uint32_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept { return layers_ * block_stride_; }
  [[nodiscard]] std::uint64_t layer_block_bytes() const noexcept { return block_stride_; }
  /// For executor_info: blocks of equal layouts may be exchanged. The whole model's, whatever of it is here.
  [[nodiscard]] std::string layout() const;
  [[nodiscard]] kv_pool_view layer(std::uint32_t index) const noexcept;
  [[nodiscard]] std::byte* block(std::uint32_t layer, std::uint32_t block) const noexcept;
  /// Throws std::invalid_argument outside of the pool.
  [[nodiscard]] protocols::memory_region keys(std::uint32_t layer, std::uint32_t block) const;
  [[nodiscard]] protocols::memory_region values(std::uint32_t layer, std::uint32_t block) const;

private:
  const device_model& model_;
  std::uint32_t layers_, kv_heads_, head_size_, blocks_ = 0;
  std::uint64_t block_stride_;
  allocation memory_;
  kv_extent extent_; ///< goes before its memory
};

} // namespace godwit::gpu::cuda
