#pragma once

#include <godwit/gpu/executor.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace godwit::main {

/// Other instances of this machine that run decode steps without a pause, each on one of these executors: what is
/// measured meanwhile shares memory, caches and processors with them, or a GPU.
class busy_neighbours {
public:
  explicit busy_neighbours(std::vector<std::shared_ptr<gpu::executor>> executors);
  busy_neighbours(const busy_neighbours&) = delete;
  busy_neighbours& operator=(const busy_neighbours&) = delete;
  /// Waits for the steps in flight.
  ~busy_neighbours();

  /// Likewise, and gives the executors back. Throws what one of them has failed with: it was no neighbour after that.
  void end();

private:
  void run(gpu::executor& on);
  void join();

  std::atomic<bool> stopping_{false};
  std::vector<std::shared_ptr<gpu::executor>> executors_;
  std::mutex mutex_;
  std::exception_ptr failure_; ///< the first
  std::vector<std::thread> threads_;
};

} // namespace godwit::main
