// Compiled where nccl.h is found only. No GPU was at hand when it was written: docs/gpu-validation.md.
#include "cuda/nccl/communicators.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace godwit::gpu::cuda {

namespace {

using clock = std::chrono::steady_clock;

/// What the ends of a group share: whether it is broken, and all of NCCL's handles, since breaking takes them all.
class nccl_group {
public:
  nccl_group(std::size_t ranks, std::chrono::nanoseconds wait_max) : handles_(ranks, nullptr), wait_max_(wait_max) {}
  nccl_group(const nccl_group&) = delete;
  nccl_group& operator=(const nccl_group&) = delete;
  ~nccl_group() { fail("the group is gone"); }

  [[nodiscard]] std::vector<ncclComm_t>& handles() noexcept { return handles_; }

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!error_.empty()) return;
    error_ = why;
    for (auto& handle : handles_) // ends what runs on the devices, too
      if (handle != nullptr) (void)ncclCommAbort(std::exchange(handle, nullptr));
  }

  /// Begins an operation, and waits while NCCL says that it is not enqueued yet. Others may break the group meanwhile:
  /// the lock is held only while NCCL is asked, which does not block.
  template <class Operation> [[nodiscard]] std::string enqueue(std::size_t rank, const Operation& operation) {
    const auto until = clock::now() + wait_max_;
    bool begun = false;
    for (;;) {
      ncclResult_t state = ncclSuccess;
      {
        const std::lock_guard lock(mutex_);
        if (!error_.empty()) return error_;
        const auto handle = handles_[rank];
        if (!std::exchange(begun, true))
          state = operation(handle);
        else if (const auto asked = ncclCommGetAsyncError(handle, &state); asked != ncclSuccess)
          state = asked;
      }
      if (state == ncclSuccess) return {};
      if (state != ncclInProgress) return failed(std::string("NCCL: ") + ncclGetErrorString(state));
      if (clock::now() > until) return failed("NCCL: the other devices did not come in time");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

private:
  std::string failed(const std::string& why) {
    fail(why);
    const std::lock_guard lock(mutex_);
    return error_;
  }
  std::mutex mutex_;
  std::vector<ncclComm_t> handles_;
  std::chrono::nanoseconds wait_max_;
  std::string error_;
};

class nccl_communicator final : public collective::communicator {
public:
  nccl_communicator(std::shared_ptr<nccl_group> group, std::uint32_t rank, nccl_place where)
      : group_(std::move(group)), rank_(rank), stream_(static_cast<cudaStream_t>(where.stream)) {}
  ~nccl_communicator() override { group_->fail("rank " + std::to_string(rank_) + " is gone"); }

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const noexcept override {
    return static_cast<std::uint32_t>(group_->handles().size());
  }
  [[nodiscard]] std::string all_reduce(std::span<float> values) override {
    return group_->enqueue(rank_, [&](ncclComm_t handle) {
      return ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum, handle, stream_);
    });
  }
  [[nodiscard]] std::string all_gather(std::span<const float> own, std::span<float> all) override {
    if (all.size() != own.size() * ranks()) return refuse("a gathering of another size than its place");
    return group_->enqueue(rank_, [&](ncclComm_t handle) {
      return ncclAllGather(own.data(), all.data(), own.size(), ncclFloat, handle, stream_);
    });
  }
  [[nodiscard]] std::string broadcast(std::span<float> values, std::uint32_t root) override {
    if (root >= ranks()) return refuse("a broadcast from rank " + std::to_string(root));
    return group_->enqueue(rank_, [&](ncclComm_t handle) {
      return ncclBroadcast(values.data(), values.data(), values.size(), ncclFloat, static_cast<int>(root), handle,
                           stream_);
    });
  }
  /// A sum of nothing that matters, for which the host waits.
  [[nodiscard]] std::string barrier() override {
    float* scratch = nullptr;
    if (const auto wrong = cudaMallocAsync(reinterpret_cast<void**>(&scratch), sizeof(float), stream_);
        wrong != cudaSuccess)
      return refuse(std::string("memory for a barrier: ") + cudaGetErrorString(wrong));
    auto error = all_reduce({scratch, 1});
    (void)cudaFreeAsync(scratch, stream_);
    if (const auto wrong = cudaStreamSynchronize(stream_); error.empty() && wrong != cudaSuccess)
      error = refuse(std::string("a barrier: ") + cudaGetErrorString(wrong));
    return error;
  }
  void abort(const std::string& why) override { group_->fail(why.empty() ? "aborted" : why); }

private:
  [[nodiscard]] std::string refuse(const std::string& what) {
    group_->fail("rank " + std::to_string(rank_) + " asks for " + what);
    return group_->enqueue(rank_, [](ncclComm_t) { return ncclSuccess; }); // the first reason
  }
  std::shared_ptr<nccl_group> group_;
  std::uint32_t rank_;
  cudaStream_t stream_;
};

} // namespace

std::vector<std::shared_ptr<collective::communicator>> make_nccl_group(std::span<const nccl_place> places,
                                                                       std::chrono::nanoseconds wait_max) {
  const auto ranks = places.size();
  if (ranks == 0) throw std::invalid_argument("a group of no ranks");
  const auto checked = [](ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress)
      throw std::runtime_error(std::string("NCCL: ") + ncclGetErrorString(result));
  };
  ncclUniqueId id;
  checked(ncclGetUniqueId(&id));
  const auto group = std::make_shared<nccl_group>(ranks, wait_max);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  int current = 0;
  (void)cudaGetDevice(&current);
  checked(ncclGroupStart());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    (void)cudaSetDevice(places[rank].device);
    checked(
        ncclCommInitRankConfig(&group->handles()[rank], static_cast<int>(ranks), id, static_cast<int>(rank), &config));
  }
  checked(ncclGroupEnd());
  (void)cudaSetDevice(current);
  std::vector<std::shared_ptr<collective::communicator>> ends;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    // Until the group is there, NCCL says that it is on the way.
    if (auto wrong = group->enqueue(rank, [](ncclComm_t) { return ncclInProgress; }); !wrong.empty())
      throw std::runtime_error(wrong);
    ends.push_back(std::make_shared<nccl_communicator>(group, rank, places[rank]));
  }
  return ends;
}

} // namespace godwit::gpu::cuda
