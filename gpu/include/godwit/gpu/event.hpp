#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace godwit::gpu {

/// A point in a stream's work that others wait for. Becomes ready once and stays so. A handle: copies are the same
/// event. Thread-safe.
class event {
public:
  event();
  [[nodiscard]] bool ready() const;
  /// Blocks the calling thread. For tests and destructors; actors use `on_ready`.
  void wait() const;
  /// The same, so long at most; whether it is ready.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds wait_max) const;
  /// Calls `reaction` once: now, on this thread, if the event is ready; else later on the thread that makes it ready.
  /// It must only post a message or wake something.
  void on_ready(std::function<void()> reaction) const;
  /// For devices.
  void set() const;

private:
  struct state;
  std::shared_ptr<state> state_;
};

} // namespace godwit::gpu
