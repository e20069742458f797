#pragma once

#include "cuda/driver.hpp"

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace godwit::gpu::cuda::native {

/// A thread that asks events whether they are ready, and tells. Sleeps while there is none; asks every few microseconds
/// while there is one.
class poller {
public:
  explicit poller(int device) : device_(device), thread_([this] { run(); }) {}
  /// Tells what is still open.
  ~poller();
  poller(const poller&) = delete;
  poller& operator=(const poller&) = delete;
  /// Records an event behind what the stream has and tells when it is ready. Throws driver_error.
  void watch(cudaStream_t stream, reaction then);
  /// Until all is told that was watched on a stream whose work has ended.
  void wait_told(cudaStream_t stream);
  /// Is this called by a reaction?
  [[nodiscard]] bool is_telling() const { return std::this_thread::get_id() == thread_.get_id(); }

private:
  struct watched {
    cudaStream_t stream;
    cudaEvent_t event;
    reaction then;
  };
  void run();
  [[nodiscard]] cudaEvent_t take_event();

  int device_;
  std::mutex mutex_;
  std::condition_variable changed_, told_;
  cudaStream_t telling_ = nullptr; ///< whose reaction runs just now
  std::vector<watched> watched_;
  std::vector<cudaEvent_t> spare_;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace godwit::gpu::cuda::native
