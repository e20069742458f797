#pragma once

#include "cuda/driver.hpp"
#include "cuda/emulated/device_memory.hpp"
#include "cuda/emulated/emulated_driver.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace godwit::gpu::cuda::emulated {

class device_state;

/// The devices of a process, which reach each other's memory with copies. Thread-safe.
class machine {
public:
  void add(const std::shared_ptr<device_state>& device);
  /// Whose device memory that is; null: no device's.
  [[nodiscard]] std::shared_ptr<device_state> owner_of(const void* address, std::size_t bytes) const;
  [[nodiscard]] bool is_pinned(const void* address, std::size_t bytes) const;

private:
  [[nodiscard]] std::vector<std::shared_ptr<device_state>> devices() const;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<device_state>> devices_;
};

/// What the streams of one device share. An error stays, as with CUDA: the device does nothing more.
class device_state {
public:
  device_state(const emulated_settings& wanted, std::shared_ptr<machine> whole)
      : settings(wanted), all(std::move(whole)), memory(wanted.memory_bytes) {}

  const emulated_settings settings;
  const std::shared_ptr<machine> all;
  device_memory memory;

  /// Keeps the first error.
  void fail(const std::string& why);
  [[nodiscard]] std::string error() const;
  /// Throws driver_error when the device has failed.
  void check() const;
  /// Counts launches; true where this one is to fail.
  [[nodiscard]] bool next_kernel_fails();
  [[nodiscard]] bool next_capture_fails() { return captures_++ < settings.captures_that_fail; }
  void count_taken() const {
    if (settings.counts) ++settings.counts->taken;
  }
  void count_given_back() const {
    if (settings.counts) ++settings.counts->given_back;
  }
  void count_use(const std::string& code) const {
    if (settings.used) settings.used->add(code);
  }
  void stand() const {
    if (settings.stands) settings.stands->pass();
  }
  void wait_to_free() const {
    if (settings.stands) settings.stands->wait_to_free();
  }
  [[nodiscard]] std::uint64_t next_seed() { return settings.seed + streams_++; }

private:
  mutable std::mutex mutex_;
  std::string error_;
  std::atomic<std::uint64_t> kernels_{0};
  std::atomic<std::uint64_t> captures_{0};
  std::atomic<std::uint64_t> streams_{0};
};

inline constexpr const char* device_name = "emulated GPU";
[[nodiscard]] memory_state memory_of(const device_state& device);
/// As driver::allocate.
[[nodiscard]] allocation take_memory(const std::shared_ptr<device_state>& device, std::uint64_t bytes,
                                     const std::string& purpose);

class emulated_event final : public driver_event {
public:
  explicit emulated_event(std::shared_ptr<device_state> device) : device_(std::move(device)) {}
  [[nodiscard]] bool ready() override;
  void synchronize() override;
  [[nodiscard]] double milliseconds_since(const driver_event& earlier) const override;

  /// Kept by the work that uses it: an event may be destroyed before its recording has run.
  struct marks {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t recorded = 0;
    std::uint64_t reached = 0;
    std::chrono::steady_clock::time_point when;
  };
  [[nodiscard]] const std::shared_ptr<marks>& state() const noexcept { return marks_; }

private:
  std::shared_ptr<device_state> device_;
  std::shared_ptr<marks> marks_ = std::make_shared<marks>();
};

using operation = std::function<void()>;

class emulated_graph final : public driver_graph {
public:
  explicit emulated_graph(std::vector<operation> work)
      : work_(std::make_shared<const std::vector<operation>>(std::move(work))) {}
  [[nodiscard]] const std::shared_ptr<const std::vector<operation>>& work() const noexcept { return work_; }

private:
  std::shared_ptr<const std::vector<operation>> work_;
};

class emulated_stream final : public driver_stream {
public:
  explicit emulated_stream(std::shared_ptr<device_state> device);
  ~emulated_stream() override;
  [[nodiscard]] void* native() const noexcept override { return nullptr; }
  [[nodiscard]] std::uint32_t shared_bytes_max() const noexcept override { return device_->settings.shared_bytes_max; }
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
  [[nodiscard]] bool captures() const noexcept { return capturing_; }

private:
  /// Work that is skipped once the device has failed, and may be captured.
  void add(operation work);
  /// Work that always runs.
  void push(operation work);
  void refuse_while_capturing(const char* what) const;
  void check_device(const void* address, std::size_t bytes, const char* what) const;
  /// The device that has to be entered for a copy; null for pinned memory.
  [[nodiscard]] std::shared_ptr<device_state> copied_owner(const void* address, std::size_t bytes,
                                                           const char* what) const;
  void work();

  std::shared_ptr<device_state> device_;
  allocation products_; ///< working memory, which nothing here works with
  std::mt19937_64 random_;
  bool capturing_ = false;
  std::vector<operation> captured_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<operation> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

/// On the stream's thread.
void multiply(const gemm_job& job);

} // namespace godwit::gpu::cuda::emulated
