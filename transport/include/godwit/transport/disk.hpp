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
/// the caller's to bound. What is read is what was written last, whole and under the same `tag`, or an error: so nobody
/// gets what another user of the disk, or one before, has put into the slot.
///
/// Thread-safe. `done` is called once, on a thread of the disk and never within a call, with one line of what went
/// wrong, or nothing; it must not throw and only post. `keep`, the owner of the memory, is held until then. Destroying
/// a disk waits for the calls that are under way, for as long as the system takes, and ends the others with an error;
/// it must not run on a thread of its own.
class disk {
public:
  virtual ~disk() = default;
  [[nodiscard]] virtual std::uint32_t slots() const noexcept = 0;
  [[nodiscard]] virtual std::size_t slot_bytes() const noexcept = 0;
  /// From and to `slot_bytes` bytes of the host's memory, whose address is a multiple of `alignment` where that is one.
  virtual void write(std::uint32_t slot, std::uint64_t tag, const std::byte* from, std::shared_ptr<void> keep,
                     std::function<void(std::string)> done) = 0;
  virtual void read(std::uint32_t slot, std::uint64_t tag, std::byte* to, std::shared_ptr<void> keep,
                    std::function<void(std::string)> done) = 0;

  static constexpr std::size_t alignment = 4096;
};

} // namespace godwit::transport
