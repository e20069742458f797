#pragma once

#include <godwit/protocols/messages/memory_region.hpp>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace godwit::gpu {

/// Says in one line what did not fit, how much was wanted and how much is there.
class out_of_memory : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Memory of a device, given back when destroyed. Movable; empty after a move.
class allocation {
public:
  allocation() noexcept = default;
  allocation(protocols::memory_region region, std::function<void(protocols::memory_region)> release);
  allocation(allocation&& other) noexcept;
  allocation& operator=(allocation&& other) noexcept;
  ~allocation();
  [[nodiscard]] const protocols::memory_region& region() const noexcept { return region_; }
  [[nodiscard]] std::byte* data() const noexcept { return region_.address; }
  [[nodiscard]] std::size_t bytes() const noexcept { return region_.bytes; }

private:
  protocols::memory_region region_;
  std::function<void(protocols::memory_region)> release_;
};

/// A device's memory, bounded. Large, few, long-lived pieces: weights, the KV pool, activations; not a general
/// allocator. Thread-safe.
class memory_pool {
public:
  virtual ~memory_pool() = default;
  /// Zeroed. At least 64-byte aligned; on the CPU in huge pages where the kernel grants them.
  /// Throws `out_of_memory` before anything is taken when the pool's bound or the machine has too little; `purpose` is
  /// named in the message ("the KV cache").
  [[nodiscard]] virtual allocation allocate(std::uint64_t bytes, const std::string& purpose) = 0;
  /// The same, where the device has such memory in pages that other processes of this host can map (shared_memory.hpp):
  /// for what they may come to read, a KV pool.
  [[nodiscard]] virtual allocation allocate_shared(std::uint64_t bytes, const std::string& purpose) {
    return allocate(bytes, purpose);
  }
  [[nodiscard]] virtual std::uint64_t used_bytes() const noexcept = 0;
  /// What could be allocated now.
  [[nodiscard]] virtual std::uint64_t available_bytes() const = 0;
};

} // namespace godwit::gpu
