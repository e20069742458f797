#pragma once

#include <godwit/gpu/sim/sim_executor.hpp>

#include <memory>

namespace godwit::gpu::sim {

/// Where a simulated executor's tokens come from.
class token_source {
public:
  virtual ~token_source() = default;
  /// Throws std::invalid_argument on a caller's bug, as far as this source can see it.
  virtual void check(const protocols::step_input& input) const = 0;
  [[nodiscard]] virtual protocols::step_output run(const protocols::step_input& input) = 0;
  /// Whether a token depends on what blocks hold, so that a step must run in its time.
  [[nodiscard]] virtual bool remembers() const noexcept = 0;
  /// What a block has to be moved; empty outside the pool.
  [[nodiscard]] virtual protocols::memory_region region(protocols::block_id block) = 0;
};

[[nodiscard]] std::unique_ptr<token_source> make_token_source(const executor_info& info, sim_model model);

} // namespace godwit::gpu::sim
