// No machine with two GPUs was at hand when this was written: docs/gpu-validation.md.
#include "cuda/native/native_group.hpp"

#include "cuda/driver.hpp"

#if defined(GODWIT_NCCL)

#include "cuda/native/errors.hpp"
#include "cuda/native/native_stream.hpp"
#include "cuda/native/nccl_library.hpp"
#include "device/leavable_threads.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace godwit::gpu::cuda::native {

namespace {

using clock = std::chrono::steady_clock;

/// For NCCL to let go of its handles. By then nothing of ours waits for anything.
constexpr auto abort_max = std::chrono::seconds(10);

std::string in_words(ncclResult_t code) { return std::string("NCCL: ") + nccl().error_string(code); }

/// What the ends share: all of NCCL's handles, since breaking takes them all, and a thread that looks whether what was
/// enqueued ends in time. A GPU that waits for another one does so for ever.
///
/// The handles do not block: a call returns while NCCL is still at work, so the lock of a rank is held for moments and
/// a group can be broken at any time. NCCL's end of a handle, though, waits until no graph has its operations: there is
/// a thread for each, and the engines let go of their graphs before they let go of their ends. Should one not return,
/// it is left behind, with a line in the log: better than a process that hangs.
class native_group {
public:
  native_group(const std::vector<int>& devices, std::chrono::nanoseconds wait_max, warning warn)
      : wait_max_(wait_max), warn_(std::move(warn)), ranks_(devices.size()) {
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      ranks_[rank].device = devices[rank];
      ranks_[rank].nccl->device = devices[rank];
    }
    connect();
    keeper_ = std::thread([this] { keep(); });
  }
  native_group(const native_group&) = delete;
  native_group& operator=(const native_group&) = delete;
  ~native_group() {
    fail("the group is gone");
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (keeper_.joinable()) keeper_.join();
    leave_aborts();
    for (auto& rank : ranks_) {
      (void)cudaSetDevice(rank.device);
      for (const auto& one : rank.open) (void)cudaEventDestroy(one.event);
      for (auto* event : rank.spare) (void)cudaEventDestroy(event);
    }
  }

  [[nodiscard]] std::size_t ranks() const noexcept { return ranks_.size(); }
  /// Called back by the driver, too, which must not wait: no lock while nothing has failed.
  [[nodiscard]] std::string error() const {
    if (!failed_) return {};
    const std::lock_guard lock(mutex_);
    return error_;
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    fail_locked(why);
  }

  /// Begins an operation and waits while NCCL says that it is not enqueued yet.
  template <class Operation> void enqueue(std::size_t rank, const Operation& operation) {
    const auto begin = clock::now();
    auto& mine = ranks_[rank];
    check(cudaSetDevice(mine.device), "the choice of a device");
    auto state = ncclSuccess;
    for (bool begun = false;; pause(clock::now() - begin)) {
      {
        const std::lock_guard lock(mine.nccl->calls);
        if (const auto why = error(); !why.empty()) throw driver_error(why);
        if (!std::exchange(begun, true))
          state = operation(mine.nccl->handle);
        else if (const auto asked = nccl().async_error(mine.nccl->handle, &state); asked != ncclSuccess)
          state = asked;
      }
      if (state == ncclSuccess) return;
      if (state != ncclInProgress) refuse(in_words(state));
      if (clock::now() - begin > wait_max_) refuse(late(rank));
    }
  }

  /// Breaks the group and throws the first reason.
  [[noreturn]] void refuse(const std::string& why) {
    fail(why);
    throw driver_error(error());
  }

  /// What the stream has by now is to end in time.
  void bound(std::size_t rank, cudaStream_t stream) {
    auto& mine = ranks_[rank];
    check(cudaSetDevice(mine.device), "the choice of a device");
    cudaEvent_t event = nullptr;
    {
      const std::lock_guard lock(mutex_);
      drop_ended(mine);
      if (!mine.spare.empty()) {
        event = mine.spare.back();
        mine.spare.pop_back();
      }
    }
    if (event == nullptr) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    // Not under the lock, which breaking the group takes: a full queue lets nothing in until the device goes on.
    const auto code = cudaEventRecord(event, stream);
    const std::lock_guard lock(mutex_);
    if (code != cudaSuccess) mine.spare.push_back(event);
    check(code, "an event");
    mine.open.push_back({event, clock::now() + wait_max_});
    changed_.notify_all();
  }

private:
  struct work {
    cudaEvent_t event;
    clock::time_point until;
  };
  /// What the thread that ends it shares.
  struct handle_state {
    int device = 0;
    std::mutex calls; ///< of NCCL with the handle
    ncclComm_t handle = nullptr;
  };
  struct rank_state {
    int device = 0;
    std::shared_ptr<handle_state> nccl = std::make_shared<handle_state>();
    std::deque<work> open; ///< in the stream's order
    std::vector<cudaEvent_t> spare;
  };

  void connect() {
    ncclUniqueId id;
    if (const auto code = nccl().get_unique_id(&id); code != ncclSuccess) throw driver_error(in_words(code));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    auto worst = nccl().group_start();
    const auto note = [&](ncclResult_t code) {
      if (worst == ncclSuccess && code != ncclInProgress) worst = code;
    };
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (cudaSetDevice(ranks_[rank].device) != cudaSuccess) note(ncclUnhandledCudaError);
      note(nccl().init_rank(&ranks_[rank].nccl->handle, static_cast<int>(ranks_.size()), id, static_cast<int>(rank),
                            &config));
    }
    note(nccl().group_end());
    try {
      if (worst != ncclSuccess) throw driver_error(in_words(worst));
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        enqueue(rank, [](ncclComm_t) { return ncclInProgress; }); // until it is there
    } catch (...) {
      fail("the group could not be made");
      leave_aborts();
      throw;
    }
  }

  /// The lock is held. Abort flags reach the devices at once; the rest goes when it can.
  void fail_locked(const std::string& why) {
    if (!error_.empty()) return;
    error_ = why;
    failed_ = true;
    for (auto& rank : ranks_)
      aborting_.start([state = rank.nccl] {
        ncclComm_t mine = nullptr;
        {
          const std::lock_guard lock(state->calls); // whoever takes it next finds the error before the handle
          mine = std::exchange(state->handle, nullptr);
        }
        if (mine == nullptr) return;
        (void)cudaSetDevice(state->device);
        (void)nccl().abort(mine); // not under the lock: it may wait for what the lock's next holder has to let go of
      });
    changed_.notify_all();
  }

  void leave_aborts() {
    if (const auto left = aborting_.join(abort_max); left > 0 && warn_)
      warn_("NCCL does not let go of " + std::to_string(left) + " of " + std::to_string(ranks_.size()) +
            " GPUs; its threads are left behind, and these GPUs may not serve again before this process has ended");
  }

  static void pause(clock::duration waited) {
    if (waited < std::chrono::microseconds(200))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  static void drop_ended(rank_state& rank) {
    (void)cudaSetDevice(rank.device); // the keeper goes from one to the next
    while (!rank.open.empty()) {
      const auto code = cudaEventQuery(rank.open.front().event);
      if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return;
      }
      rank.spare.push_back(rank.open.front().event); // an error is told by the stream's own end
      rank.open.pop_front();
    }
  }

  [[nodiscard]] std::string late(std::size_t rank) const {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait_max_).count();
    return "rank " + std::to_string(rank) + " has waited for the other devices for " + std::to_string(ms) + " ms";
  }

  void keep() {
    std::unique_lock lock(mutex_);
    while (!stopping_ && error_.empty()) {
      auto next = clock::time_point::max();
      for (const auto& rank : ranks_)
        if (!rank.open.empty()) next = std::min(next, rank.open.front().until);
      if (next == clock::time_point::max()) {
        changed_.wait(lock);
        continue;
      }
      if (clock::now() < next) {
        changed_.wait_until(lock, next);
        continue;
      }
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        drop_ended(ranks_[rank]);
        if (!ranks_[rank].open.empty() && ranks_[rank].open.front().until <= clock::now()) fail_locked(late(rank));
      }
    }
  }

  const std::chrono::nanoseconds wait_max_;
  const warning warn_;
  std::vector<rank_state> ranks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string error_;
  std::atomic<bool> failed_{false}; ///< there is an error
  leavable_threads aborting_;
  bool stopping_ = false;
  std::thread keeper_;
};

class native_end final : public group_end {
public:
  native_end(std::shared_ptr<native_group> group, std::uint32_t rank) : group_(std::move(group)), rank_(rank) {}
  ~native_end() override { group_->fail("rank " + std::to_string(rank_) + " is gone"); }

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override { return static_cast<std::uint32_t>(group_->ranks()); }

  void all_reduce(driver_stream& on, float* values, std::size_t count) override {
    group_->enqueue(rank_, [&](ncclComm_t handle) {
      return nccl().all_reduce(values, values, count, ncclFloat, ncclSum, handle, stream_of(on));
    });
  }
  void all_gather(driver_stream& on, const float* own, float* all, std::size_t count) override {
    group_->enqueue(
        rank_, [&](ncclComm_t handle) { return nccl().all_gather(own, all, count, ncclFloat, handle, stream_of(on)); });
  }
  void bound(driver_stream& on) override { group_->bound(rank_, stream_of(on)); }

  void abort(const std::string& why) override { group_->fail(why.empty() ? "aborted" : why); }
  [[nodiscard]] std::string error() const override { return group_->error(); }

private:
  static cudaStream_t stream_of(const driver_stream& on) { return static_cast<cudaStream_t>(on.native()); }

  std::shared_ptr<native_group> group_;
  std::uint32_t rank_;
};

} // namespace

std::vector<std::shared_ptr<group_end>> make_native_group(const std::vector<int>& devices,
                                                          std::chrono::nanoseconds wait_max, const warning& warn) {
  const auto group = std::make_shared<native_group>(devices, wait_max, warn);
  std::vector<std::shared_ptr<group_end>> ends;
  for (std::uint32_t rank = 0; rank < devices.size(); ++rank) ends.push_back(std::make_shared<native_end>(group, rank));
  return ends;
}

} // namespace godwit::gpu::cuda::native

#else

namespace godwit::gpu::cuda::native {

std::vector<std::shared_ptr<group_end>> make_native_group(const std::vector<int>&, std::chrono::nanoseconds,
                                                          const warning&) {
  throw driver_error(
      "NCCL is missing, by which GPUs that share a model talk to each other: its header was not there when "
      "this plug-in was built");
}

} // namespace godwit::gpu::cuda::native

#endif
