#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace godwit::actors::sim {

/// How many times of each length there were: of the gaps between the tokens of all requests there are too many to keep
/// them one by one. Lengths are kept to within 1/64 of themselves, the longest and the sum exactly.
class gap_counts {
public:
  void add(std::int64_t ns) {
    const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
    const auto bucket = bucket_of(value);
    if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
    ++buckets_[bucket];
    ++count_;
    sum_ns_ += static_cast<double>(value);
    most_ns_ = std::max(most_ns_, static_cast<std::int64_t>(value));
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] double mean_ns() const noexcept { return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_); }
  [[nodiscard]] std::int64_t most_ns() const noexcept { return most_ns_; }
  /// The length that so large a share of them does not exceed. 0 where there are none.
  [[nodiscard]] double quantile_ns(double share) const noexcept {
    const auto wanted = share * static_cast<double>(count_);
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      seen += buckets_[bucket];
      if (buckets_[bucket] > 0 && static_cast<double>(seen) >= wanted)
        return std::min(middle_of(bucket), static_cast<double>(most_ns_));
    }
    return static_cast<double>(most_ns_);
  }
  friend bool operator==(const gap_counts&, const gap_counts&) = default;

private:
  /// 64 of each power of two; below 128 each number has its own.
  static constexpr unsigned bits = 6;
  static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    const auto width = static_cast<unsigned>(std::bit_width(value));
    if (width <= bits + 1) return value;
    const auto shift = width - bits - 1;
    return (std::size_t{shift} << bits) + (value >> shift);
  }
  static constexpr double middle_of(std::size_t bucket) noexcept {
    if (bucket < (std::size_t{2} << bits)) return static_cast<double>(bucket);
    const auto shift = static_cast<unsigned>((bucket >> bits) - 1);
    const auto first = static_cast<std::uint64_t>(bucket - (std::size_t{shift} << bits)) << shift;
    return static_cast<double>(first) + static_cast<double>((std::uint64_t{1} << shift) - 1) / 2;
  }
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  double sum_ns_ = 0;
  std::int64_t most_ns_ = 0;
};

} // namespace godwit::actors::sim
