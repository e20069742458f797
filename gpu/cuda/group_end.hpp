#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace godwit::gpu::cuda {

class driver_stream;

/// A device's end of a group of devices that run one model together: what collective::communicator is to devices whose
/// work lies in streams.
///
/// All ranks enqueue the same operations in the same order, each on a stream of its own device, where they may be
/// captured; a captured one is launched by all or by none, from graphs that were captured together. Values lie in the
/// rank's device memory. Calls throw driver_error; operations are one thread's at a time, `abort` and `error`
/// anybody's, also a reaction's.
///
/// A group breaks once and for good: by `abort`, by an end that is destroyed, by a rank for which another one waits too
/// long. What is under way then ends at once, with whatever numbers, and without an error of the stream, since a device
/// has to serve on. So work with such operations in it has gone well only where `error` is empty once it has ended.
class group_end {
public:
  virtual ~group_end() = default;
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const noexcept = 0;

  /// In place: each element becomes the sum of all ranks'. The order of the sum is the driver's.
  virtual void all_reduce(driver_stream& on, float* values, std::size_t count) = 0;
  /// `all` gets `count` values of rank 0, then of rank 1, ....
  virtual void all_gather(driver_stream& on, const float* own, float* all, std::size_t count) = 0;
  /// After a stretch of work: what the stream has by now ends within the group's bound, or breaks the group.
  virtual void bound(driver_stream& on) = 0;

  /// Breaks the group; only the first reason counts. Returns at once.
  virtual void abort(const std::string& why) = 0;
  /// Empty while the group is whole; then one line.
  [[nodiscard]] virtual std::string error() const = 0;
};

} // namespace godwit::gpu::cuda
