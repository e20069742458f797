#include <godwit/protocols/batching/draft_depth.hpp>

#include <algorithm>

namespace godwit::protocols {

namespace {

constexpr double kept = 0.85;         ///< of what was known, with each new draft
constexpr double kept_resting = 0.98; ///< with each step without
constexpr double hoped = 0.9;         ///< by who knows nothing
constexpr double hope = 0.5;          ///< what that weighs, in drafts
constexpr double newest = 0.125;      ///< the weight of the newest time
constexpr std::uint32_t depth_unknown = 4;

void approach(double& known, double now) noexcept { known = known == 0 ? now : known + newest * (now - known); }

} // namespace

void draft_record::took(std::uint32_t right, std::uint32_t drafted) noexcept {
  right_ = kept * right_ + right;
  wrong_ = kept * wrong_ + (right < drafted ? 1 : 0);
}

void draft_record::rested() noexcept {
  right_ *= kept_resting;
  wrong_ *= kept_resting;
}

double draft_record::chance() const noexcept { return (right_ + hope * hoped) / (right_ + wrong_ + hope); }

void draft_meter::took(std::uint32_t passes, std::int64_t drafting_ns, std::int64_t step_ns) noexcept {
  if (passes == 0 || drafting_ns <= 0 || step_ns <= 0) return;
  approach(pass_ns_, static_cast<double>(drafting_ns) / passes);
  approach(step_ns_, static_cast<double>(step_ns));
}

std::uint32_t draft_meter::depth(std::span<const double> chances, std::uint32_t most) const noexcept {
  if (pass_ns_ == 0) return std::min(most, depth_unknown);
  std::uint32_t best = 0;
  double best_rate = 0, expected = 0;
  for (std::uint32_t k = 0; k <= most; ++k) {
    for (const auto chance : chances) { // its k-th guess, and all before
      double all = 1;
      for (std::uint32_t i = 0; i < k; ++i) all *= chance;
      expected += all;
    }
    const auto rate = expected / (step_ns_ + (k + 1) * pass_ns_);
    if (rate <= best_rate) continue;
    best = k;
    best_rate = rate;
  }
  return best;
}

} // namespace godwit::protocols
