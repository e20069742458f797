#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/memory_region.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace godwit::actors {

/// The KV pool of an instance as the fabric sees it: each block is a fixed number of regions, the same on every
/// instance of one KV layout. K and V of a layer are one region where they lie side by side.
class kv_memory {
public:
  explicit kv_memory(std::shared_ptr<gpu::executor> pool);

  [[nodiscard]] std::uint32_t regions_per_block() const noexcept { return per_block_; }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept { return block_bytes_; }
  /// Regions of the blocks, in their order.
  [[nodiscard]] std::vector<protocols::memory_region> regions(std::span<const protocols::block_id> blocks) const;
  /// Holds the memory.
  [[nodiscard]] std::shared_ptr<void> keep() const { return pool_; }

private:
  void append(protocols::block_id block, std::vector<protocols::memory_region>& out) const;
  std::shared_ptr<gpu::executor> pool_;
  std::uint32_t layers_ = 0;
  std::uint32_t per_block_ = 0;
  std::uint64_t block_bytes_ = 0;
};

} // namespace godwit::actors
