#pragma once

#include <godwit/protocols/messages/memory_extent.hpp>
#include <godwit/protocols/messages/memory_region.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace godwit::protocols {

/// Urgent copies (the last stage of a migration, which a client feels) do not stand in a queue behind bulk.
enum class copy_urgency : std::uint8_t { bulk, urgent };

/// Copies device memory, for those who may not touch it.
///
/// Memory of a device traps when the host reads or writes it, and neither transport/ nor actors/ know a device. Whoever
/// owns one implements this over its copy streams; the fabric moves blocks through page-locked memory with it.
///
/// * Asynchronous: each call returns at once, with the copy queued. `done("")` means that the bytes are in place, for
///   the host and for whatever the device begins afterwards; otherwise one line of what went wrong, and the target may
///   hold anything. Exactly once for each call, in bounded time, and nothing of that copy reads or writes any more by
///   then.
/// * Thread-safe. `done` runs on a thread of the copier, perhaps within the call; it must not throw, may hold locks of
///   nobody, and only posts. Copies end in any order.
/// * What is read must be finished: the caller has been told that the work which wrote it is over. Copies do not wait
///   for the device's computing, nor hold it up beyond the bandwidth that they take.
/// * Memory belongs to the caller, who holds it until `done`. Lists may have regions of 0 bytes; sizes in bytes.
/// * Destroying a copier waits for what is queued. It may be destroyed by the last of its own pieces of pinned memory.
class memory_copier {
public:
  using completion = std::function<void(std::string error)>;

  virtual ~memory_copier() = default;

  /// For logs: "cuda 0 (NVIDIA H100 PCIe)".
  [[nodiscard]] virtual std::string name() const = 0;

  /// Page-locked host memory, 64-byte aligned, given back with the last copy of the pointer; it holds what it needs of
  /// the copier. Null where there is none left.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) = 0;

  /// What was allocated around an address of a device of this process, as long as it is there; so that a network's
  /// adapter can be told of it once, where it reaches such memory by itself. Nothing where that is not known: blocks
  /// then go by the copies below. Thread-safe; called often.
  [[nodiscard]] virtual std::optional<memory_extent> extent(const std::byte* address) const {
    (void)address;
    return std::nullopt;
  }

  /// Lets the calling thread, a fabric's, work with the device by other libraries than ours, which look for what it has
  /// chosen (CUDA's current context).
  virtual void enter() {}

  /// Device regions, one behind the other, into `into`: pinned, of as many bytes as they have together.
  virtual void gather(std::vector<memory_region> from, memory_region into, copy_urgency urgency, completion done) = 0;

  /// The other way: `from`, pinned, cut up into device regions.
  virtual void scatter(memory_region from, std::vector<memory_region> into, copy_urgency urgency, completion done) = 0;

  /// Device regions into device regions, of this device or of one beside it in the same process: as one stream of
  /// bytes, so that only the sums need to be equal.
  virtual void copy(std::vector<memory_region> from, std::vector<memory_region> into, copy_urgency urgency,
                    completion done) = 0;
};

} // namespace godwit::protocols
