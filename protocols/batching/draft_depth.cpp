#include <godwit/protocols/batching/draft_depth.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace godwit::protocols {

namespace {

constexpr double record_kept = 0.85;  ///< of what was known, with each new draft
constexpr double record_rests = 0.98; ///< with each step without
constexpr double hoped_chance = 0.9;  ///< by who knows nothing
constexpr double hope_weight = 0.5;   ///< what that weighs, in drafts
constexpr double steps_kept = 0.98;
constexpr double outlier = 4;       ///< times as long as usual, and not longer
constexpr double rows_least = 0.05; ///< variance of rows that says something of what one takes
constexpr std::uint32_t depth_unknown = 4;
constexpr int rounds_max = 16;

} // namespace

void draft_record::took(std::uint32_t right, std::uint32_t drafted) noexcept {
  right_ = record_kept * right_ + right;
  wrong_ = record_kept * wrong_ + (right < drafted ? 1 : 0);
}

void draft_record::rested() noexcept {
  right_ *= record_rests;
  wrong_ *= record_rests;
}

double draft_record::chance() const noexcept {
  return (right_ + hope_weight * hoped_chance) / (right_ + wrong_ + hope_weight);
}

void draft_meter::took(std::uint32_t passes, std::int64_t drafting_ns, std::uint32_t rows,
                       std::int64_t step_ns) noexcept {
  if (passes == 0 || rows == 0 || drafting_ns <= 0 || step_ns <= 0) return;
  auto pass = static_cast<double>(drafting_ns) / passes;
  auto step = static_cast<double>(step_ns);
  if (weight_ > 0) { // once the machine stood still
    pass = std::min(pass, outlier * pass_ns_ / weight_);
    step = std::min(step, outlier * step_ns_ / weight_ * std::max(1.0, rows * weight_ / rows_));
  }
  const double n = rows;
  for (auto* sum : {&weight_, &pass_ns_, &rows_, &rows2_, &step_ns_, &rows_step_ns_}) *sum *= steps_kept;
  weight_ += 1;
  pass_ns_ += pass;
  rows_ += n;
  rows2_ += n * n;
  step_ns_ += step;
  rows_step_ns_ += n * step;
}

double draft_meter::row_ns() const noexcept {
  const auto mean = rows_ / weight_, varies = rows2_ / weight_ - mean * mean;
  if (varies < rows_least) return 0;
  const auto slope = (rows_step_ns_ / weight_ - mean * step_ns_ / weight_) / varies;
  return std::clamp(slope, 0.0, step_ns_ / rows_); // not less than nothing for no rows
}

// Tokens for the time are most where the tokens less the time at that rate are (Dinkelbach 1967): each row and each
// pass has its price then, and is taken where what it brings is more.
std::vector<std::uint32_t> draft_meter::depths(std::span<const double> chances, std::uint32_t decodes,
                                               std::uint32_t most) const {
  if (weight_ == 0) return std::vector(chances.size(), std::min(most, depth_unknown));
  const auto row = row_ns(), pass = pass_ns_ / weight_;
  const auto none = std::max(0.0, (step_ns_ - row * rows_) / weight_) + row * decodes + pass; // of no drafts
  std::vector<std::uint32_t> best(chances.size(), 0), now;
  std::vector<double> all_right;
  double rate = decodes / none;
  for (int round = 0; round < rounds_max; ++round) {
    const auto row_price = rate * row, pass_price = rate * pass;
    all_right.assign(chances.begin(), chances.end());
    now.assign(chances.size(), 0);
    double gain = 0, gain_most = 0, tokens = 0, tokens_most = 0;
    std::uint32_t rows = 0, rows_most = 0, passes_most = 0;
    auto taken = now;
    for (std::uint32_t k = 1; k <= most; ++k) {
      gain -= pass_price;
      for (std::size_t i = 0; i < chances.size(); ++i) {
        if (all_right[i] <= row_price) continue;
        gain += all_right[i] - row_price;
        tokens += all_right[i];
        ++rows;
        ++now[i];
        all_right[i] *= chances[i];
      }
      if (gain <= gain_most) continue;
      gain_most = gain, tokens_most = tokens, rows_most = rows, passes_most = k, taken = now;
    }
    const auto better = (decodes + tokens_most) / (none + row * rows_most + pass * passes_most);
    best = std::move(taken);
    if (better <= rate * (1 + 1e-9)) break;
    rate = better;
  }
  return best;
}

} // namespace godwit::protocols
