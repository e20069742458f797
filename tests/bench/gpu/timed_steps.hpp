#pragma once

#include <godwit/gpu/executor.hpp>

#include <cstdint>

namespace godwit::bench {

/// What one step took, in seconds.
struct step_times {
  double caller = 0; ///< from begin to the completion
  double device = 0; ///< from its first work to its last
};

/// Requests side by side on an executor, over blocks in their order. What lies in the KV cache does not matter for the
/// time.
class timed_steps {
public:
  /// `temperature` 0: greedy.
  explicit timed_steps(gpu::executor& on, float temperature = 0, float top_p = 1)
      : executor_(on), temperature_(temperature), top_p_(top_p) {}
  /// `batch` requests, each fed `tokens` tokens from `position` on, the last ones as drafts. Throws std::runtime_error.
  step_times run(std::uint32_t batch, std::uint32_t position, std::uint32_t tokens, std::uint32_t drafted = 0);

private:
  gpu::executor& executor_;
  float temperature_, top_p_;
  std::uint64_t steps_ = 0;
};

} // namespace godwit::bench
