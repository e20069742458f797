#include "cuda/native/poller.hpp"

#include "cuda/native/ends_in_order.hpp"
#include "cuda/native/errors.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace godwit::gpu::cuda::native {

namespace {

constexpr auto pause = std::chrono::microseconds(5);

} // namespace

poller::~poller() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
  (void)cudaSetDevice(device_);
  for (auto* event : spare_) (void)cudaEventDestroy(event);
}

cudaEvent_t poller::take_event() {
  const std::lock_guard lock(mutex_);
  if (!spare_.empty()) {
    auto* event = spare_.back();
    spare_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return event;
}

void poller::watch(cudaStream_t stream, reaction then) {
  auto* event = take_event();
  const auto code = cudaEventRecord(event, stream);
  if (code != cudaSuccess) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(event);
  }
  check(code, "an event");
  {
    const std::lock_guard lock(mutex_);
    watched_.push_back({stream, event, std::move(then)});
  }
  changed_.notify_one();
}

void poller::wait_told(cudaStream_t stream) {
  std::unique_lock lock(mutex_);
  if (is_telling()) return;
  told_.wait(lock, [&] {
    return telling_ != stream &&
           std::none_of(watched_.begin(), watched_.end(), [&](const watched& one) { return one.stream == stream; });
  });
}

void poller::run() {
  (void)cudaSetDevice(device_);
  (void)prctl(PR_SET_TIMERSLACK, 1UL); // ns; Linux may else let a thread sleep 50 us longer than it asked for
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !watched_.empty(); });
    if (watched_.empty()) return;
    for (;;) { // anew after each that is told: others may have come and gone
      auto code = cudaSuccess;
      const auto i = first_to_tell(watched_, [&](const watched& one) {
        code = cudaEventQuery(one.event);
        if (code != cudaErrorNotReady) return true;
        (void)cudaGetLastError(); // it is no error
        return false;
      });
      if (i == watched_.size()) break;
      auto ended = std::move(watched_[i]);
      watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
      spare_.push_back(ended.event);
      telling_ = ended.stream;
      lock.unlock();
      ended.then(code == cudaSuccess ? std::string() : "CUDA: " + in_words(code));
      ended.then = {};
      lock.lock();
      telling_ = nullptr;
      told_.notify_all();
    }
    lock.unlock();
    std::this_thread::sleep_for(pause);
    lock.lock();
  }
}

} // namespace godwit::gpu::cuda::native
