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

/// The KV pool of an instance as the fabric sees it: each block is a fixed number of regions, whose bytes, one after
/// the other, are the same on every instance of one KV layout: for each layer K of all heads in order, then V. Behind
/// the model's layers come those of its draft model, where it has one; they lie on one device.
///
/// An instance on one device has K and V of a layer as one region where they lie side by side; one that is divided has
/// those of each device. Two instances that exchange blocks cut them into the same number of regions (`common_with`):
/// each layer's K, and its V, into as many pieces as the least common multiple of their devices. So heads find their
/// device whatever the degree is on the other side.
class kv_memory {
public:
  explicit kv_memory(std::shared_ptr<gpu::executor> pool);

  /// Devices that share each block.
  [[nodiscard]] std::uint32_t devices() const noexcept { return devices_; }
  /// The same memory, in the regions that a peer with so many devices has as well. Null: there are none, since the
  /// bytes of a layer's K cannot be divided so. (How many heads those are is not known here: where a degree divides the
  /// bytes and not the heads, which no instance does, the bytes would still be right.)
  [[nodiscard]] std::shared_ptr<const kv_memory> common_with(std::uint32_t devices_of_peer) const;
  [[nodiscard]] std::uint32_t regions_per_block() const noexcept { return per_block_; }
  [[nodiscard]] std::uint64_t block_bytes() const noexcept { return block_bytes_; }
  /// Regions of the blocks, in their order.
  [[nodiscard]] std::vector<protocols::memory_region> regions(std::span<const protocols::block_id> blocks) const;
  /// The same memory in regions of one size: who keeps a block's bytes needs to know no more of them. Null: there is no
  /// memory, or a block would be in too many pieces, since those of a draft model have another size.
  [[nodiscard]] std::shared_ptr<const kv_memory> even() const;
  /// Copied by cores, and not by a device.
  [[nodiscard]] bool on_host() const noexcept { return on_host_; }
  /// Holds the memory.
  [[nodiscard]] std::shared_ptr<void> keep() const { return pool_; }

private:
  enum class half : std::uint8_t { keys, values };
  void append(protocols::block_id block, std::vector<protocols::memory_region>& out) const;
  void append(std::uint32_t layer, protocols::block_id block, half which,
              std::vector<protocols::memory_region>& out) const;
  void append_whole(std::uint32_t layer, protocols::block_id block, std::vector<protocols::memory_region>& out) const;
  /// Whether each region can be cut into pieces of the size that `pieces_` asks for.
  [[nodiscard]] bool divisible() const;
  [[nodiscard]] std::vector<protocols::memory_region> whole_half(std::uint32_t layer, protocols::block_id block,
                                                                 half which) const;
  /// The devices that have a layer, and the number that it has there.
  struct layer_place {
    std::span<const std::shared_ptr<gpu::executor>> devices;
    std::uint32_t layer = 0;
  };
  [[nodiscard]] std::uint32_t all_layers() const noexcept;
  [[nodiscard]] layer_place place_of(std::uint32_t layer) const noexcept;
  void count();
  std::shared_ptr<gpu::executor> pool_;
  std::shared_ptr<gpu::executor> draft_; ///< null: there is none
  std::uint32_t layers_ = 0;             ///< of the model
  std::uint32_t devices_ = 1;
  std::uint32_t pieces_ = 1; ///< of K, and of V, of a layer
  std::uint32_t per_block_ = 0;
  std::uint64_t block_bytes_ = 0;
  bool on_host_ = true;
  std::uint64_t unit_ = 0; ///< bytes that divide every region; 0: there is no memory
  bool cut_ = false;       ///< into regions of one unit each
};

} // namespace godwit::actors
