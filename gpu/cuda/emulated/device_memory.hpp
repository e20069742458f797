#pragma once

#include <godwit/gpu/memory_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace godwit::gpu::cuda::emulated {

/// The memory of an emulated device and the host memory that it may copy from and to.
///
/// Device memory carries a protection key: a thread touches it only between `enter` and `leave`. Without such keys in
/// the processor it is closed to all when the last thread leaves, every eighth time that one does. Thread-safe.
class device_memory {
public:
  explicit device_memory(std::uint64_t bytes_max);
  ~device_memory();
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;

  /// Null where the bound does not allow it. Full of 0xFF, which is NaN in every floating-point type.
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes);
  /// Throws std::runtime_error when something was written in front of the piece.
  void release(std::byte* piece);
  [[nodiscard]] std::byte* allocate_pinned(std::uint64_t bytes);
  void release_pinned(std::byte* piece);

  /// Lies wholly within a piece of the device's, or of pinned memory.
  [[nodiscard]] bool is_device(const void* address, std::size_t bytes) const;
  [[nodiscard]] bool is_pinned(const void* address, std::size_t bytes) const;

  void enter();
  void leave();
  [[nodiscard]] std::uint64_t free_bytes() const;
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return bytes_max_; }

private:
  struct piece {
    std::uint64_t bytes = 0;
    std::byte* mapping = nullptr; ///< begins and ends with a page that nobody can touch
    std::uint64_t mapped = 0;
  };
  using pieces = std::map<const std::byte*, piece>;
  [[nodiscard]] static bool within(const pieces& all, const void* address, std::size_t bytes);
  void protect(const piece& which, bool open) const;

  const std::uint64_t bytes_max_;
  int key_;
  mutable std::mutex mutex_;
  pieces device_;
  pieces pinned_;
  std::uint64_t used_ = 0;
  std::uint32_t inside_ = 0; ///< without keys, as the next two
  std::uint32_t left_ = 0;   ///< how often all were outside again
  bool open_ = false;
};

} // namespace godwit::gpu::cuda::emulated
