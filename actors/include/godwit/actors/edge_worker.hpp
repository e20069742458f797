#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace godwit::actors {

/// A thread for the long work of few clients: bodies of megabytes, answers with a hundred thousand log-probabilities.
/// Where that were done on an I/O thread or by the front end, everybody else's streams would stand still meanwhile.
/// Thread-safe. Jobs run one after the other; those that have not begun when it ends are dropped.
class edge_worker {
public:
  explicit edge_worker(std::size_t waiting_max);
  edge_worker(const edge_worker&) = delete;
  edge_worker& operator=(const edge_worker&) = delete;
  ~edge_worker(); ///< end()

  /// Waits for the running job; afterwards nothing is taken. Not from a job.
  void end();
  /// False, and nothing done, where as many wait as may. Must not throw on their thread.
  [[nodiscard]] bool post(std::function<void()> job);

private:
  void run();

  const std::size_t waiting_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ends_ = false;
  std::thread thread_; // last: it uses the others
};

} // namespace godwit::actors
