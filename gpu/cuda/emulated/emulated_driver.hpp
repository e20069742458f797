#pragma once

#include "cuda/driver.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace godwit::gpu::cuda::emulated {

struct emulated_settings {
  std::uint64_t memory_bytes = std::uint64_t{512} << 20U;
  /// Each piece of work waits up to so long before it begins, so that what was not ordered comes in another order.
  std::uint32_t delay_us_max = 0;
  std::uint64_t seed = 0;
  /// Fails the launch of the so-manieth kernel, counted from 1; for tests of errors. 0: none.
  std::uint64_t kernel_that_fails = 0;
  /// No graph can be made of what was captured.
  bool captures_fail = false;
  /// Of one thread block: what a GPU of compute capability 8.6, 8.9 or 12.0 has, the least of those served.
  std::uint32_t shared_bytes_max = 99U << 10U;
};

/// A GPU made of threads: a thread for each stream, memory of its own, which only those threads can touch.
///
/// A host thread that reads or writes device memory dies with a segmentation fault where the processor has protection
/// keys (`memory_is_guarded`); elsewhere while nothing of the device runs. Fresh memory is full of NaN, ends at a page
/// that nobody can touch, and a copy from or to host memory that is not pinned is refused.
[[nodiscard]] std::shared_ptr<driver> make_emulated_driver(const emulated_settings& settings = {});

/// Several of one process: a stream of one copies from and to memory of another, and they can be joined in groups.
/// Work on memory of another one that is no copy dies.
[[nodiscard]] std::vector<std::shared_ptr<driver>> make_emulated_drivers(const std::vector<emulated_settings>& each);

} // namespace godwit::gpu::cuda::emulated
