#pragma once

#include <godwit/gpu/event.hpp>
#include <godwit/gpu/memory_pool.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace godwit::gpu {

enum class backend : std::uint8_t {
  cpu,  ///< threads of this process, host memory
  cuda, ///< one GPU, its memory
  sim   ///< nothing is computed; work takes the time it is said to take on a timer
};
[[nodiscard]] std::string to_string(backend kind);

/// Work for a device, in order.
///
/// Everything enqueued runs one after the other on the device's threads, never on the caller's. Two streams of one
/// device interleave freely; order between them is made with events. Thread-safe. Destroying a stream drops what has
/// not begun and waits for what runs (except from within the work itself).
class stream {
public:
  virtual ~stream() = default;
  /// `cost_ns` is what the work takes on a simulated device; real devices ignore it.
  /// The work must not throw; what goes wrong is its own business to report.
  virtual void enqueue(std::function<void()> work, std::int64_t cost_ns = 0) = 0;
  /// An event that is ready when all that was enqueued before has run.
  [[nodiscard]] virtual event record() = 0;
  /// What is enqueued from now on begins only when `earlier` is ready. Blocks the stream, not the caller and not the
  /// device.
  virtual void wait(event earlier) = 0;
};

/// A place where models run: its threads or its GPU, its memory, its streams.
/// Owns all it uses, so several devices live side by side in one process. Outlives its streams and allocations.
class device {
public:
  virtual ~device() = default;
  [[nodiscard]] virtual backend kind() const noexcept = 0;
  /// For logs and status: "cpu (2 threads, amx)".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::unique_ptr<stream> make_stream() = 0;
  [[nodiscard]] virtual memory_pool& memory() noexcept = 0;
};

} // namespace godwit::gpu
