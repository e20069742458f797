#pragma once

#include "cpu/kernels/table.hpp"
#include "cpu/packed_model.hpp"

#include <godwit/gpu/cpu/cpu_executor.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::cpu {

/// What KV is kept in, for weights that are kept in `weights`.
[[nodiscard]] constexpr storage kv_storage(kv_precision wanted, storage weights) noexcept {
  if (wanted == kv_precision::automatic) return weights == storage::bf16 ? storage::bf16 : storage::f32;
  if (wanted == kv_precision::fp8) return storage::fp8;
  return wanted == kv_precision::bf16 ? storage::bf16 : storage::f32;
}
/// "bf16"
[[nodiscard]] constexpr const char* name_of_kv(storage kind) noexcept {
  return kind == storage::bf16 ? "bf16" : kind == storage::fp8 ? "fp8" : "f32";
}

/// The paged KV cache: [layer][block] of K and V (layout within: kernels/table.hpp).
class kv_pool {
public:
  kv_pool(memory_pool& memory, const model::config& config, storage kind, std::uint32_t blocks);

  [[nodiscard]] static std::uint64_t block_bytes(const model::config& config, storage kind) noexcept;
  [[nodiscard]] storage kind() const noexcept { return kind_; }
  /// For executor_info. Of the whole model also where this pool has some of its heads: the bytes of a block, those of
  /// all devices put together, are the same however many share them.
  [[nodiscard]] static std::string layout(const model::config& whole, storage kind);
  [[nodiscard]] std::uint32_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] kv_view layer(std::uint32_t index) const noexcept;
  [[nodiscard]] protocols::memory_region keys(std::uint32_t layer, std::uint32_t block) const;
  [[nodiscard]] protocols::memory_region values(std::uint32_t layer, std::uint32_t block) const;
  /// K and V of one layer.
  void copy(std::uint32_t layer, std::uint32_t from, std::uint32_t to) const noexcept;
  [[nodiscard]] const allocation& memory() const noexcept { return memory_; }

  [[nodiscard]] std::uint32_t layers() const noexcept { return layers_; }

private:
  storage kind_;
  std::uint32_t layers_, blocks_, head_width_;
  std::size_t head_bytes_, half_; ///< half: K (or V) of a block of a layer
  allocation memory_;
};

/// The KV of the layers that a device computes, each in the pool of the device that had it first.
class kv_layers {
public:
  struct place {
    std::shared_ptr<const kv_pool> pool;
    std::uint32_t layer = 0; ///< of the pool's
  };
  /// All of one.
  explicit kv_layers(const std::shared_ptr<const kv_pool>& pool);
  /// Of pools that keep it in one way; at least one.
  explicit kv_layers(std::vector<place> places) : places_(std::move(places)) {}

  [[nodiscard]] storage kind() const noexcept { return places_.front().pool->kind(); }
  [[nodiscard]] kv_view layer(std::uint32_t index) const noexcept {
    return places_[index].pool->layer(places_[index].layer);
  }
  /// K and V of one layer.
  void copy(std::uint32_t index, std::uint32_t from, std::uint32_t to) const noexcept {
    places_[index].pool->copy(places_[index].layer, from, to);
  }

private:
  std::vector<place> places_;
};

} // namespace godwit::gpu::cpu
