#pragma once

#include "cuda/driver.hpp"
#include "cuda/native/gemm_plans.hpp"
#include "cuda/native/poller.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace godwit::gpu::cuda::native {

/// What the streams of a device share.
///
/// A thread that has chosen no device starts the first one with any call, which another process may have for itself: so
/// whoever calls the driver says `use` first.
class device_parts {
public:
  /// The last one to let go of it may be a reaction, which must neither call the driver nor end the poller that runs
  /// it: then another thread destroys it.
  [[nodiscard]] static std::shared_ptr<device_parts> make(int device);
  ~device_parts() { free_late(); }
  const int index;
  std::string name;                   ///< the device's
  std::uint32_t shared_bytes_max = 0; ///< of one thread block
  gemm_plans plans;
  std::optional<poller> polling; ///< absent: the driver calls back
  /// The driver takes many copies in one call. Until it has refused to.
  std::atomic<bool> takes_batches{true};

  /// The calling thread's calls go to this device.
  void use() const;

  /// Frees memory; later, where the driver is calling back just now and must not be called.
  void give_back(protocols::memory_region region);
  void free_late();
  /// Calls a reaction on a thread of the driver's.
  static void call_back(reaction then, const std::string& error);

private:
  explicit device_parts(int device) : index(device) {}
  void free(protocols::memory_region region) const;
  std::mutex mutex_;
  std::vector<protocols::memory_region> late_;
};

[[nodiscard]] memory_state memory_of(const device_parts& device);
/// As driver::allocate.
[[nodiscard]] allocation take_memory(const std::shared_ptr<device_parts>& device, std::uint64_t bytes,
                                     const std::string& purpose);

class native_event final : public driver_event {
public:
  native_event(std::shared_ptr<device_parts> device, bool timed);
  ~native_event() override;
  native_event(const native_event&) = delete;
  native_event& operator=(const native_event&) = delete;
  [[nodiscard]] bool ready() override;
  void synchronize() override;
  [[nodiscard]] double milliseconds_since(const driver_event& earlier) const override;
  [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }

private:
  std::shared_ptr<device_parts> device_;
  cudaEvent_t event_ = nullptr;
};

class native_graph final : public driver_graph {
public:
  native_graph(std::shared_ptr<device_parts> device, cudaGraphExec_t graph)
      : device_(std::move(device)), graph_(graph) {}
  ~native_graph() override {
    (void)cudaSetDevice(device_->index);
    (void)cudaGraphExecDestroy(graph_);
  }
  native_graph(const native_graph&) = delete;
  native_graph& operator=(const native_graph&) = delete;
  [[nodiscard]] cudaGraphExec_t get() const noexcept { return graph_; }

private:
  std::shared_ptr<device_parts> device_;
  cudaGraphExec_t graph_;
};

class native_stream final : public driver_stream {
public:
  native_stream(std::shared_ptr<device_parts> device, stream_priority priority);
  ~native_stream() override;
  native_stream(const native_stream&) = delete;
  native_stream& operator=(const native_stream&) = delete;
  [[nodiscard]] void* native() const noexcept override {
    (void)cudaSetDevice(device_->index); // a failure shows in the launch
    return stream_;
  }
  [[nodiscard]] std::uint32_t shared_bytes_max() const noexcept override { return device_->shared_bytes_max; }
  void run(std::string kernel, std::function<void()> body) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy(std::span<const copy_piece> pieces) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  void gemm(const gemm_job& job, std::uint32_t proposal) override;
  [[nodiscard]] std::uint32_t gemm_proposals(const gemm_job& job) override;
  void prepare_products() override;
  void record(driver_event& event) override;
  void wait(driver_event& event) override;
  void notify(reaction then) override;
  void synchronize() override;
  void begin_capture() override;
  [[nodiscard]] std::unique_ptr<driver_graph> end_capture() override;
  void launch(driver_graph& graph) override;

private:
  [[nodiscard]] bool copy_in_one_call(std::span<const copy_piece> pieces);
  std::shared_ptr<device_parts> device_;
  cudaStream_t stream_ = nullptr;
  allocation workspace_; ///< of products; taken with the first one
};

} // namespace godwit::gpu::cuda::native
