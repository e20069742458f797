#pragma once

#include <godwit/transport/device_memory.hpp>
#include <godwit/transport/fabric.hpp>

#include <cstddef>
#include <memory>

/// The fabric between hosts that share a process: tests, and topologies embedded into one program. It copies and
/// answers on a thread of its own, so it has no place in a simulated world, whose fabrics are those of transport::sim.
namespace godwit::transport::in_process {

/// What the fabrics of one process have in common: a thread that copies, one piece at a time, urgent ones first.
class hub;

struct settings {
  /// Bytes copied at once: how long an urgent send or a withdrawal may have to wait.
  std::size_t bytes_per_piece = std::size_t{1} << 20;
  device_memory device = {};
};

[[nodiscard]] std::shared_ptr<hub> make_hub(settings options = {});
/// A member of the hub, which it keeps alive. Members reach each other and themselves.
[[nodiscard]] std::shared_ptr<fabric> make_fabric(std::shared_ptr<hub> shared);

} // namespace godwit::transport::in_process
