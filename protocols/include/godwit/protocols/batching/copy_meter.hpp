#pragma once

#include <cstdint>

namespace godwit::protocols {

/// Measures how long the KV of a block takes between an instance's pool and the host's memory, one way, as the last
/// copies were: AdaptiveLLM's cost of swapping, bytes by bandwidth (spec adaptivellm.md), with the bandwidth found
/// while serving. A mean over about the last `kept_blocks` blocks. A copy counts at most eight times as long as usual,
/// since machines stand still at times; what one has shown to be far too much is soon forgotten.
class copy_meter {
public:
  void took(std::uint32_t blocks, std::int64_t ns) noexcept;
  /// 0: nothing has been copied yet.
  [[nodiscard]] double ns_per_block() const noexcept { return blocks_ > 0 ? ns_ / blocks_ : 0; }

  static constexpr double kept_blocks = 1024;

private:
  double blocks_ = 0, ns_ = 0;
};

} // namespace godwit::protocols
