#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace godwit::transport {

/// Slots of equal size that are larger and slower than memory: where a shard of the KV store keeps what its memory has
/// no room for (docs/design/kv_store.md).
///
/// Calls for one slot take effect in their order; calls for others go on side by side. How many are open at a time is
/// the caller's to bound. What is read is what was written last, whole, or an error.
///
/// Thread-safe. `done` is called once, on a thread of the disk and never within a call, with one line of what went
/// wrong, or nothing; it must not throw and only post. `keep`, the owner of the memory, is held until then. Destroying
/// a disk ends what is open; it must not run on a thread of its own.
class disk {
public:
  virtual ~disk() = default;
  [[nodiscard]] virtual std::uint32_t slots() const noexcept = 0;
  [[nodiscard]] virtual std::size_t slot_bytes() const noexcept = 0;
  /// From and to `slot_bytes` bytes of the host's memory, whose address is a multiple of `alignment` where that is one.
  virtual void write(std::uint32_t slot, const std::byte* from, std::shared_ptr<void> keep,
                     std::function<void(std::string)> done) = 0;
  virtual void read(std::uint32_t slot, std::byte* to, std::shared_ptr<void> keep,
                    std::function<void(std::string)> done) = 0;

  static constexpr std::size_t alignment = 4096;
};

} // namespace godwit::transport
