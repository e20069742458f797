#include "cpu/kv_pool.hpp"

#include "cpu/packing.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

namespace godwit::gpu::cpu {

namespace {

std::size_t bytes_of_head(const model::config& config, storage kind) noexcept {
  return std::size_t{protocols::tokens_per_block} * round_up(config.head_size, tile_depth) * bytes_of(kind);
}

} // namespace

std::uint64_t kv_pool::block_bytes(const model::config& config, storage kind) noexcept {
  return std::uint64_t{2} * config.layers * config.kv_heads * bytes_of_head(config, kind);
}

kv_pool::kv_pool(memory_pool& memory, const model::config& config, storage kind, std::uint32_t blocks)
    : kind_(kind), layers_(config.layers), blocks_(blocks), head_width_(round_up(config.head_size, tile_depth)),
      head_bytes_(bytes_of_head(config, kind)), half_(config.kv_heads * head_bytes_),
      memory_(memory.allocate_shared(block_bytes(config, kind) * blocks,
                                     "a KV cache of " + std::to_string(blocks) + " blocks")) {}

std::string kv_pool::layout(const model::config& whole, storage kind) {
  return std::string("cpu/") + name_of_kv(kind) + "/layers " + std::to_string(whole.layers) + "/half " +
         std::to_string(whole.kv_heads * bytes_of_head(whole, kind)) + "/width " +
         std::to_string(round_up(whole.head_size, tile_depth)) + "/v1";
}

kv_view kv_pool::layer(std::uint32_t index) const noexcept {
  kv_view view;
  view.base = memory_.data() + std::size_t{index} * blocks_ * 2 * half_;
  view.block_stride = 2 * half_;
  view.value_offset = half_;
  view.head_stride = head_bytes_;
  view.head_width = head_width_;
  return view;
}

protocols::memory_region kv_pool::keys(std::uint32_t layer_index, std::uint32_t block) const {
  if (layer_index >= layers_ || block >= blocks_) throw std::invalid_argument("KV region outside the pool");
  return {layer(layer_index).base + std::size_t{block} * 2 * half_, half_, protocols::memory_kind::host};
}

protocols::memory_region kv_pool::values(std::uint32_t layer_index, std::uint32_t block) const {
  auto region = keys(layer_index, block);
  region.address += half_;
  return region;
}

void kv_pool::copy(std::uint32_t layer_index, std::uint32_t from, std::uint32_t to) const noexcept {
  std::byte* base = layer(layer_index).base;
  std::memcpy(base + std::size_t{to} * 2 * half_, base + std::size_t{from} * 2 * half_, 2 * half_);
}

kv_layers::kv_layers(const std::shared_ptr<const kv_pool>& pool) {
  for (std::uint32_t layer = 0; layer < pool->layers(); ++layer) places_.push_back({pool, layer});
}

} // namespace godwit::gpu::cpu
