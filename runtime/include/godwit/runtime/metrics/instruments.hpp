#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace godwit::runtime::metrics {

/// Only grows. Lock-free.
class counter {
public:
  void increment(std::uint64_t by = 1) noexcept { value_.fetch_add(by, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
  // A cache line each: counters of one family are updated by different threads.
  alignas(64) std::atomic<std::uint64_t> value_{0};
};

/// Goes up and down. Lock-free.
class gauge {
public:
  void set(double x) noexcept { value_.store(x, std::memory_order_relaxed); }
  void add(double x) noexcept { value_.fetch_add(x, std::memory_order_relaxed); }
  [[nodiscard]] double value() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
  alignas(64) std::atomic<double> value_{0.0};
};

/// Counts observations in fixed buckets; a bucket counts what is <= its bound. Lock-free.
class histogram {
public:
  /// `bounds` ascending and finite; +Inf is added. std::invalid_argument otherwise.
  explicit histogram(std::vector<double> bounds);
  void observe(double x) noexcept;

  struct snapshot {
    std::vector<std::uint64_t> cumulative; ///< one a bound, then +Inf, which is the number of observations
    double sum = 0.0;
  };
  /// Counts agree with each other; the sum may be some observations ahead or behind.
  [[nodiscard]] snapshot read() const;
  [[nodiscard]] const std::vector<double>& bounds() const noexcept { return bounds_; }

private:
  std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  alignas(64) std::atomic<double> sum_{0.0};
};

/// `count` bounds, each `factor` times the one before: exponential_bounds(0.001, 2, 4) = 1, 2, 4 and 8 ms.
[[nodiscard]] std::vector<double> exponential_bounds(double first, double factor, std::uint32_t count);

} // namespace godwit::runtime::metrics
