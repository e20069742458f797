#pragma once

#include <godwit/protocols/messages/memory_extent.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace godwit::gpu::cuda {

/// The KV caches of this process, on whichever of its devices, each as long as its `kv_extent` lives: for a network's
/// adapter that reads and writes them by itself (protocols::memory_copier::extent). Thread-safe.
class kv_extent {
public:
  kv_extent() noexcept = default;
  /// `takes_writes`: see protocols::memory_extent.
  kv_extent(std::byte* address, std::size_t bytes, bool takes_writes);
  kv_extent(kv_extent&& other) noexcept;
  kv_extent& operator=(kv_extent&& other) noexcept;
  ~kv_extent();

  [[nodiscard]] static std::optional<protocols::memory_extent> around(const std::byte* address);

private:
  const std::byte* address_ = nullptr;
  std::uint64_t id_ = 0;
};

} // namespace godwit::gpu::cuda
