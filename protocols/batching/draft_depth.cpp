#include <godwit/protocols/batching/draft_depth.hpp>

#include <algorithm>
#include <utility>

namespace godwit::protocols {

namespace {

constexpr double try_keeps = 0.95;   ///< of what was known, each draft that was tried
constexpr double rest_keeps = 0.97;  ///< and each step without
constexpr double hoped_chance = 0.9; ///< by who knows nothing
constexpr double hope_weight = 0.5;  ///< what that weighs, in drafts
constexpr double step_keeps = 0.98;
constexpr double slow_counts_at_most = 2;
constexpr double steps_least = 6;  ///< that say something
constexpr double rows_vary = 0.05; ///< variance from which on they say what one takes
constexpr std::uint32_t depth_to_find_out = 4;
constexpr std::uint64_t asked_half = 8;
constexpr int rates_tried = 16;

} // namespace

void draft_record::took(std::uint32_t right, std::uint32_t drafted) noexcept {
  for (std::uint32_t i = 0; i < std::min(right + 1, drafted); ++i) {
    right_ *= try_keeps;
    wrong_ *= try_keeps;
    ++(i < right ? right_ : wrong_);
  }
}

void draft_record::rested() noexcept {
  right_ *= rest_keeps;
  wrong_ *= rest_keeps;
}

double draft_record::chance() const noexcept {
  return (right_ + hope_weight * hoped_chance) / (right_ + wrong_ + hope_weight);
}

void draft_meter::took(std::uint32_t passes, std::int64_t drafting_ns, std::uint32_t decodes, std::uint32_t drafts,
                       std::int64_t step_ns) noexcept {
  if (passes == 0 || decodes == 0 || drafting_ns <= 0 || step_ns <= 0) return;
  const double n = double{1} * decodes + drafts;
  auto pass = static_cast<double>(drafting_ns) / passes;
  auto step = static_cast<double>(step_ns);
  if (weight_ > 0) { // once the machine stood still
    const auto usual = row_ns_ ? std::max(0.0, (step_ns_ - *row_ns_ * rows_) / weight_) + *row_ns_ * n
                               : step_ns_ / weight_ * std::max(1.0, n * weight_ / rows_);
    pass = std::min(pass, slow_counts_at_most * pass_ns_ / weight_);
    step = std::min(step, slow_counts_at_most * usual);
  }
  for (auto* sum : {&weight_, &pass_ns_, &rows_, &rows2_, &step_ns_, &rows_step_ns_}) *sum *= step_keeps;
  weight_ += 1;
  pass_ns_ += pass;
  rows_ += n;
  rows2_ += n * n;
  step_ns_ += step;
  rows_step_ns_ += n * step;
  drafts_ = std::max(step_keeps * drafts_, static_cast<double>(drafts));
  learn_row();
}

// The slope of times over rows.
void draft_meter::learn_row() noexcept {
  const auto mean = rows_ / weight_, varies = rows2_ / weight_ - mean * mean;
  if (varies < rows_vary || weight_ < steps_least) return;
  const auto slope = (rows_step_ns_ / weight_ - mean * step_ns_ / weight_) / varies;
  row_ns_ = std::clamp(slope, 0.0, step_ns_ / rows_); // no rows take no less than no time
}

// Tokens for the time are most where the tokens less the time at that rate are (Dinkelbach 1967): each row and each
// pass has its price then, and is taken where what it brings is more.
std::vector<std::uint32_t> draft_meter::depths(std::span<const double> chances, std::uint32_t decodes,
                                               std::uint32_t most) {
  std::vector<std::uint32_t> out(chances.size(), 0);
  if (chances.empty()) return out;
  if (!row_ns_) {
    // Now and then without, or one request alone has the same rows each time.
    if (++asked_ % asked_half != 0) out.front() = std::min(most, depth_to_find_out);
    return out;
  }
  const auto base = std::max(0.0, (step_ns_ - *row_ns_ * rows_) / weight_);
  const auto pass = pass_ns_ / weight_;
  const prices cost{base + *row_ns_ * decodes + pass, *row_ns_, pass}; // one pass is run anyway
  auto rate = decodes / cost.none;
  for (int tried = 0; tried < rates_tried; ++tried) {
    auto found = worth_at(rate, chances, most, cost);
    const auto better = (decodes + found.tokens) / found.time;
    out = std::move(found.depths);
    if (better <= rate * (1 + 1e-9)) break;
    rate = better;
  }
  bound(out);
  if (++asked_ % asked_half == 0)
    for (auto& depth : out) depth /= 2;
  return out;
}

void draft_meter::bound(std::vector<std::uint32_t>& depths) const noexcept {
  auto left = static_cast<std::uint64_t>(std::max(2 * drafts_, double{depth_to_find_out}));
  const auto deepest = *std::ranges::max_element(depths);
  auto given = std::vector<std::uint32_t>(depths.size(), 0);
  for (std::uint32_t k = 0; k < deepest && left > 0; ++k)
    for (std::size_t i = 0; i < depths.size() && left > 0; ++i)
      if (depths[i] > k) ++given[i], --left;
  depths = std::move(given);
}

/// What is worth its price at so many tokens for the time.
draft_meter::choice draft_meter::worth_at(double rate, std::span<const double> chances, std::uint32_t most,
                                          const prices& cost) {
  choice best{std::vector<std::uint32_t>(chances.size(), 0), 0, cost.none};
  auto now = best;
  std::vector<double> all_right(chances.begin(), chances.end());
  double most_gained = 0;
  for (std::uint32_t k = 1; k <= most; ++k) {
    now.time += cost.pass;
    for (std::size_t i = 0; i < chances.size(); ++i) {
      if (all_right[i] <= rate * cost.row) continue;
      now.tokens += all_right[i];
      now.time += cost.row;
      ++now.depths[i];
      all_right[i] *= chances[i];
    }
    const auto gained = now.tokens - rate * (now.time - cost.none);
    if (gained <= most_gained) continue;
    most_gained = gained;
    best = now;
  }
  return best;
}

} // namespace godwit::protocols
