#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// What the devices of one instance tell each other while they run one model together (docs/design/tensor_parallel.md).
namespace godwit::gpu::collective {

/// One rank's end of a group of devices whose memory is the host's. (Of GPUs: gpu/cuda/group_end.hpp.)
///
/// All ranks call the same operations in the same order, each from one thread at a time, and have the result when the
/// call returns. What an operation gives is a function of what the ranks bring: it does not depend on who comes first.
///
/// Errors are one line, empty where all is well. The first one, or `abort`, or the destruction of an end, breaks the
/// group: whatever any rank waits for ends at once with that line, and so does everything that is begun afterwards.
/// There is no way back; a new group is made.
class communicator {
public:
  virtual ~communicator() = default;
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const noexcept = 0;

  /// In place: each element becomes the sum of all ranks', ((rank 0 + rank 1) + rank 2) + ..., in the floating-point
  /// mode of the calling thread.
  [[nodiscard]] virtual std::string all_reduce(std::span<float> values) = 0;
  /// `all` gets the values of rank 0, then of rank 1, ...; it is `ranks()` times as long as `own`, which has the same
  /// length everywhere.
  [[nodiscard]] virtual std::string all_gather(std::span<const float> own, std::span<float> all) = 0;

  /// Breaks the group. From any thread, also while an operation runs; only the first reason counts.
  virtual void abort(const std::string& why) = 0;
};

/// A group within this process, over host memory. `wait_max`: a rank that waits longer for the others breaks the group
/// and says who did not come. Throws std::invalid_argument for no ranks.
[[nodiscard]] std::vector<std::shared_ptr<communicator>>
make_host_group(std::uint32_t ranks, std::chrono::nanoseconds wait_max = std::chrono::minutes(1));

} // namespace godwit::gpu::collective
