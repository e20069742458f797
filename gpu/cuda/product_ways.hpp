#pragma once

#include "cuda/driver.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace godwit::gpu::cuda {

/// A product to be tried, and the matrices that take the place of its `w` in turn, as in a step: one alone would stay
/// in the device's cache. `job.rows` is the most that there is memory for.
struct product_trial {
  gemm_job job;
  std::vector<const void*> weights;
};

/// How a model's products of few rows are computed on a device, outside of the deterministic mode.
///
/// Problem: a decode step is a matter of how fast weights are read. Which of the algorithms that cuBLASLt proposes does
/// it fastest, or whether the kernel of fixed order (kernels_gemm.cpp) does, differs from shape to shape and from GPU
/// to GPU, and the library proposes without having tried.
/// Contract: each way is timed once, before the model's first step; whatever was fastest stays, so sums of one shape
/// have one order as long as the model is on the device. Thread-safe.
class product_ways {
public:
  /// Instead of the number of one of the library's proposals.
  static constexpr std::uint32_t fixed_kernel = ~0U;
  /// Products of more rows are not tried: the library's first proposal does them.
  static constexpr std::uint32_t rows_max = 64;
  /// Of the caller's time: shapes that have not begun by then keep the library's first proposal. Few rows come first.
  static constexpr std::chrono::seconds time_max{2};

  struct summary {
    std::uint32_t shapes = 0;   ///< that were tried
    std::uint32_t others = 0;   ///< of these: by another proposal than the first
    std::uint32_t by_fixed = 0; ///< ... by the kernel of fixed order
    double seconds = 0;         ///< of the caller's
    [[nodiscard]] std::string in_words() const;
  };

  /// Only differences count.
  using clock = std::function<std::chrono::steady_clock::time_point()>;

  /// The first caller tries what `trials` says, on an idle stream of its own, whose memory for results may be
  /// overwritten; others wait for it. `now` bounds how long that takes. `tell` hears of it in one line; may be empty.
  /// Throws driver_error where the device has failed; a proposal that the library then refuses, or that no graph can
  /// have, is left out.
  void try_once(driver& on, driver_stream& stream, const std::function<std::vector<product_trial>()>& trials,
                const clock& now, const std::function<void(const std::string&)>& tell);
  /// For a product's columns, depth, rows and types, after `try_once`.
  [[nodiscard]] std::uint32_t of(const gemm_job& job) const noexcept;

private:
  using shape = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, model::data_type, bool>;
  [[nodiscard]] static shape shape_of(const gemm_job& job) noexcept;
  [[nodiscard]] summary try_all(driver& on, driver_stream& stream, std::span<const product_trial> trials,
                                const clock& now);

  std::once_flag once_;
  std::map<shape, std::uint32_t> fastest_; ///< constant once tried
};

} // namespace godwit::gpu::cuda
