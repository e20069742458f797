#pragma once

#include "cpu/kernels/table.hpp"

#include <optional>

namespace godwit::gpu::cpu {

/// The kernels of an instruction set; absent: of the best one. Throws std::invalid_argument where this machine lacks
/// it.
[[nodiscard]] const kernel_table& kernels_for(std::optional<isa> wanted);

/// Whether a product of one row, which waits for memory, gains by asking for weights before they are needed. Intel's
/// processors do; AMD's own prefetchers are better alone (docs/design/kernels.md).
[[nodiscard]] bool fetches_ahead() noexcept;

/// While it lives, this thread's arithmetic takes denormal numbers for zero, as AMX always does. All kernels need it.
class flush_denormals {
public:
  flush_denormals() noexcept;
  ~flush_denormals();
  flush_denormals(const flush_denormals&) = delete;
  flush_denormals& operator=(const flush_denormals&) = delete;

private:
  unsigned before_ = 0;
};

} // namespace godwit::gpu::cpu
