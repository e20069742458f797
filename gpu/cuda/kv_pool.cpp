#include "cuda/kv_pool.hpp"

#include "cpu/host_memory.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace godwit::gpu::cuda {

namespace {

/// For what a step needs beyond what is taken at once: code that the driver loads with its first use, graphs, longer
/// lists. Not much of a small device.
std::uint64_t reserve_of(memory_state memory) { return std::min(std::uint64_t{512} << 20U, memory.total_bytes / 16); }

std::uint32_t blocks_for(const cuda_executor_settings& settings, const device_model& model, memory_state memory,
                         std::uint64_t bytes_per_block) {
  if (settings.blocks != 0) return settings.blocks;
  // Whole blocks' are spoken of.
  std::uint64_t bytes =
      settings.kv_bytes / (std::uint64_t{model.part.degree} * model.whole.layers) * model.config.layers;
  if (settings.kv_bytes == 0) {
    const auto share = static_cast<std::uint64_t>(static_cast<double>(model.left_bytes) * settings.memory_share);
    const std::uint64_t reserve = reserve_of(memory);
    const std::uint64_t left = memory.free_bytes > reserve ? memory.free_bytes - reserve : 0;
    bytes = std::min(share, left);
  }
  const std::uint64_t blocks = bytes / bytes_per_block;
  if (blocks == 0)
    throw out_of_memory("a KV cache of " + cpu::in_words(bytes) + " holds no block; one takes " +
                        cpu::in_words(bytes_per_block));
  // Slots are numbered with 32 bits.
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(blocks, std::numeric_limits<std::uint32_t>::max() / block_tokens - 1));
}

} // namespace

kv_pool::kv_pool(const device_model& model)
    : model_(model), layers_(model.config.layers), kv_heads_(model.config.kv_heads), head_size_(model.config.head_size),
      block_stride_(cuda::block_bytes(model.config.kv_heads, model.config.head_size)) {}

std::uint32_t kv_pool::wanted(const cuda_executor_settings& settings) const {
  return blocks_for(settings, model_, model_.driver->memory(), block_bytes());
}

void kv_pool::take(std::uint32_t blocks) {
  auto& from = *model_.driver;
  extent_ = {};
  memory_ = from.allocate(block_bytes() * blocks, "a KV cache of " + std::to_string(blocks) + " blocks");
  extent_ = kv_extent(memory_.data(), memory_.bytes(), from.properties().remote_writes_ordered);
  blocks_ = blocks;
  const auto stream = from.make_stream(stream_priority::low); // other instances' steps go on meanwhile
  stream->fill(memory_.data(), 0, memory_.bytes());
  stream->synchronize();
}

std::string kv_pool::layout() const {
  return "cuda/" + to_string(model_.type) + "/layers " + std::to_string(model_.whole.layers) + "/heads " +
         std::to_string(model_.whole.kv_heads) + "/size " + std::to_string(head_size_) + "/v1";
}

std::byte* kv_pool::block(std::uint32_t layer, std::uint32_t block) const noexcept {
  return memory_.data() + (std::uint64_t{layer} * blocks_ + block) * block_stride_;
}

kv_pool_view kv_pool::layer(std::uint32_t index) const noexcept {
  return {block(index, 0), block_stride_, kv_heads_, head_size_};
}

protocols::memory_region kv_pool::keys(std::uint32_t layer, std::uint32_t which) const {
  if (layer >= layers_ || which >= blocks_) throw std::invalid_argument("KV region outside the pool");
  return {block(layer, which), block_stride_ / 2, protocols::memory_kind::device};
}

protocols::memory_region kv_pool::values(std::uint32_t layer, std::uint32_t which) const {
  auto region = keys(layer, which);
  region.address += block_stride_ / 2;
  return region;
}

} // namespace godwit::gpu::cuda
