#pragma once

#include <chrono>

namespace godwit::gpu::sim {

/// What copies of KV from and to a simulated device take from its steps.
///
/// A block that leaves is read from the memory from which steps read weights and KV, and one that arrives is written to
/// it: a step has the memory for that much less time. The executor asks at the begin of a step and again when its own
/// time is over; what copies have taken in between, the step takes longer. Copies in that additional time are left out.
/// So a step is held to be bound by memory, as steps that decode are; one that is bound
/// by computing would feel less.
class copy_load {
public:
  copy_load() = default;
  copy_load(const copy_load&) = delete;
  copy_load& operator=(const copy_load&) = delete;
  virtual ~copy_load() = default;
  /// Of the memory's time, up to now. Does not fall.
  [[nodiscard]] virtual std::chrono::nanoseconds taken() = 0;
  /// A step that would have taken `alone` takes so much more. `decodes`: it has no part of a prompt.
  virtual void slowed(std::chrono::nanoseconds alone, std::chrono::nanoseconds more, bool decodes) = 0;
};

} // namespace godwit::gpu::sim
