#pragma once

#include <godwit/gpu/cpu/cpu_executor.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace godwit::main {

/// Other instances of this machine that run decode steps without a pause, on executors of their own: what is measured
/// meanwhile shares memory, caches and processors with them.
class busy_neighbours {
public:
  busy_neighbours(const std::shared_ptr<const gpu::cpu::packed_model>& model,
                  const gpu::cpu::cpu_executor_settings& settings, std::uint32_t count);
  busy_neighbours(const busy_neighbours&) = delete;
  busy_neighbours& operator=(const busy_neighbours&) = delete;
  /// Waits for the steps in flight.
  ~busy_neighbours();

private:
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<gpu::executor>> executors_;
  std::vector<std::thread> threads_;
};

} // namespace godwit::main
