#pragma once

#include <cstdint>

namespace godwit::protocols {

/// When a static batch is full before places or memory are: SLO-ODBS (UELLM, algorithm 3-1, spec uellm.md).
///
/// Problem: a static batch lasts until its longest answer ends, and keeps all that wait from starting; so it had better
/// be of requests that are alike, and the smaller the longer they are. A request joins a batch of n while
///
///   slo_weight x (its objective + the longest of the batch) x (n + 1)
///     + length_weight x (its expected answer + the longest of the batch) x (n + 1) <= 1,
///
/// where the thesis has w1 L1 / Threshold and w2 L2 / Threshold for the weights: of its five numbers only two matter.
/// With one weight at 0 it looks at the other alone (its SLO-DBS and ODBS). Requests are tried in the queue's order;
/// the thesis sorts those that are there by their objectives, as queue_order::edf does those that came together.
struct batch_rule {
  double slo_weight = 0;    ///< for each second and request
  double length_weight = 0; ///< for each token and request
  [[nodiscard]] bool on() const noexcept { return slo_weight > 0 || length_weight > 0; }
};

/// One batch while it is formed.
class batch_former {
public:
  explicit batch_former(const batch_rule& rule) noexcept : rule_(rule) {}
  /// Whether a request with this objective (0: none, which counts as undemanding_ttft_ns) and expected answer joins.
  /// The first one always does.
  [[nodiscard]] bool takes(std::int64_t ttft_ns, std::uint32_t expected_tokens) const noexcept;
  void add(std::int64_t ttft_ns, std::uint32_t expected_tokens) noexcept;

private:
  batch_rule rule_;
  std::uint64_t requests_ = 0;
  double slo_max_ = 0; ///< s
  double length_max_ = 0;
};

} // namespace godwit::protocols
