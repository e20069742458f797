#pragma once

#include "cuda/driver.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace godwit::gpu::cuda::emulated {

/// Pieces of device memory and of pinned memory.
struct memory_counts {
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> given_back{0};
};

/// Names of the kernels and products that have run. Thread-safe.
class used_code {
public:
  void add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.insert(name);
  }
  [[nodiscard]] std::set<std::string> names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }

private:
  mutable std::mutex mutex_;
  std::set<std::string> names_;
};

/// A device that stands still from `begin` to `end`: no kernel, copy or fill begins that it has or gets, and who gives
/// memory back while there is such work waits, as for cudaFree. Thread-safe.
class standstill {
public:
  void begin() { set(true); }
  void end() { set(false); }
  /// On a stream's thread, before its work.
  void pass() {
    std::unique_lock lock(mutex_);
    if (!lasts_) return;
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !lasts_; });
    --held_;
  }
  void wait_to_free() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !lasts_ || held_ == 0; });
  }
  /// Until some work is held up.
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_ != 0; });
  }

private:
  void set(bool lasts) {
    const std::lock_guard lock(mutex_);
    lasts_ = lasts;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool lasts_ = false;
  std::uint32_t held_ = 0; ///< streams
};

struct emulated_settings {
  std::uint64_t memory_bytes = std::uint64_t{512} << 20U;
  /// Each piece of work waits up to so long before it begins, so that what was not ordered comes in another order.
  std::uint32_t delay_us_max = 0;
  std::uint64_t seed = 0;
  /// Fails the launch of the so-manieth kernel, counted from 1; for tests of errors. 0: none.
  std::uint64_t kernel_that_fails = 0;
  /// No graph can be made of so many captures, the first ones.
  std::uint64_t captures_that_fail = 0;
  /// Of one thread block: what a GPU of compute capability 8.6, 8.9 or 12.0 has, the least of those served.
  std::uint32_t shared_bytes_max = 99U << 10U;
  std::uint32_t multiprocessors = 4;
  /// Working memory of products, for each stream that has some.
  std::uint64_t product_bytes = 4096;
  /// How much longer a product takes by each way that is proposed; absent: it is refused when it is asked for. Empty:
  /// there is one way.
  std::vector<std::optional<std::uint32_t>> proposals_us = {};
  std::shared_ptr<memory_counts> counts = nullptr; ///< null: nobody counts
  bool loads_late = false;                         ///< as device_properties says; to load takes no time here
  std::shared_ptr<used_code> used = nullptr;       ///< null: nobody asks
  std::uint32_t copy_us = 0;                       ///< that each copy takes longer
  std::shared_ptr<standstill> stands = nullptr;    ///< null: it never does
};

/// A GPU made of threads: a thread for each stream, memory of its own, which only those threads can touch.
///
/// A host thread that reads or writes device memory dies with a segmentation fault where the processor has protection
/// keys (`memory_is_guarded`); elsewhere while nothing of the device runs. Fresh memory is full of NaN, ends at a page
/// that nobody can touch, and a copy from or to host memory that is not pinned is refused.
[[nodiscard]] std::shared_ptr<driver> make_emulated_driver(const emulated_settings& settings = {});

/// Several of one process: a stream of one copies from and to memory of another, and they can be joined in groups.
/// Work on memory of another one that is no copy dies.
[[nodiscard]] std::vector<std::shared_ptr<driver>> make_emulated_drivers(const std::vector<emulated_settings>& each);

} // namespace godwit::gpu::cuda::emulated
