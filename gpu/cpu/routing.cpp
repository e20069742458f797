#include "cpu/routing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace godwit::gpu::cpu {

routing::routing(const model::mixture_config& of, std::uint32_t rows)
    : of_(of), chosen_(std::size_t{rows} * of.chosen), experts_(of.experts), first_(of.experts + std::size_t{1}),
      rows_(chosen_.size()), weights_(chosen_.size()) {}

void routing::choose(std::uint32_t row, std::span<float> logits, std::uint32_t padded,
                     void (*exponential)(const float*, float*, std::uint32_t)) {
  const std::span chosen = std::span(chosen_).subspan(std::size_t{row} * of_.chosen, of_.chosen);
  // What is no number is the least, and has the row be none.
  const auto is_none = [](float logit) { return std::isnan(logit); };
  const bool broken = std::ranges::any_of(logits, is_none);
  if (broken) std::ranges::replace_if(logits, is_none, -std::numeric_limits<float>::infinity());
  // Few of few: the best of those that are left, once for each place.
  for (std::size_t place = 0; place < chosen.size(); ++place) {
    const auto taken = chosen.first(place);
    auto best = of_.experts;
    for (std::uint32_t expert = 0; expert < of_.experts; ++expert) {
      if (std::ranges::find(taken, expert, &choice::expert) != taken.end()) continue;
      if (best == of_.experts || logits[expert] > logits[best]) best = expert;
    }
    chosen[place].expert = best;
  }
  const float highest = logits[chosen.front().expert];
  for (auto& logit : logits) logit -= highest;
  std::fill(logits.data() + logits.size(), logits.data() + padded, 0.0F);
  exponential(logits.data(), logits.data(), padded);
  std::ranges::sort(chosen, {}, &choice::expert);
  float sum = 0;
  if (of_.normed)
    for (const auto& one : chosen) sum += logits[one.expert];
  else
    for (const auto each : logits) sum += each;
  for (auto& one : chosen) one.weight = broken ? std::numeric_limits<float>::quiet_NaN() : logits[one.expert] / sum;
}

void routing::group() {
  std::ranges::fill(first_, 0U);
  for (const auto& one : chosen_) ++first_[one.expert + std::size_t{1}];
  used_ = 0;
  for (std::uint32_t expert = 0; expert < of_.experts; ++expert) {
    const auto count = first_[expert + std::size_t{1}];
    if (count > 0) experts_[used_++] = {expert, first_[expert], count};
    first_[expert + std::size_t{1}] += first_[expert];
  }
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const auto at = first_[chosen_[i].expert]++;
    rows_[at] = static_cast<std::uint32_t>(i / of_.chosen);
    weights_[at] = chosen_[i].weight;
  }
}

} // namespace godwit::gpu::cpu
