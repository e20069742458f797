#pragma once

#include <godwit/protocols/batching/queue_order.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

/// What a report says of a queue, so that whoever thinks of sending one more there knows behind how much it would
/// stand.
namespace godwit::protocols {

/// Some of those that wait, one behind the other.
struct queue_part {
  queue_place first;
  queue_place last;
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0; ///< that they need to start
  std::uint64_t tokens = 0; ///< of their prompts, and what else is to be computed before they decode
  double pairs = 0;         ///< attention_pairs of these (policy/expected_latency.hpp)

  friend bool operator==(const queue_part&, const queue_part&) = default;
  auto fields() { return std::tie(first, last, requests, blocks, tokens, pairs); }
};

/// Cuts a queue into parts of equal numbers, six of them; and, as far as there are parts enough, between priorities and
/// behind those that have begun, which is where one that comes has its place most often.
class queue_summary {
public:
  static constexpr std::size_t parts_max = 8;
  static constexpr std::size_t equal_parts = 6;

  /// Of so many that wait.
  explicit queue_summary(std::size_t waiting) noexcept;
  /// The next one in line, a part of one; as many as was said.
  void add(const queue_part& one);
  [[nodiscard]] std::vector<queue_part> parts() && noexcept { return std::move(parts_); }

private:
  [[nodiscard]] bool begins(const queue_place& next) const noexcept;
  std::size_t left_;
  std::size_t most_; ///< in a part
  std::vector<queue_part> parts_;
};

/// What of this queue starts after one that comes with this place; of the part within which it lies, half.
[[nodiscard]] queue_part queued_behind(const queue_place& place, const std::vector<queue_part>& queue) noexcept;

} // namespace godwit::protocols
