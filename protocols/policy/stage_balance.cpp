#include <godwit/protocols/ensure.hpp>
#include <godwit/protocols/policy/stage_balance.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace godwit::protocols {

stage_balance::stage_balance(std::vector<std::uint32_t> layers, std::vector<double> beside,
                             stage_balance_settings settings)
    : settings_(settings), layers_(std::move(layers)), beside_(std::move(beside)), last_change_(layers_.size()),
      busy_ns_(layers_.size()) {
  ensure(beside_.size() == layers_.size(), "every stage has work beside its layers, or none");
}

void stage_balance::ran(std::span<const std::int64_t> busy_ns, std::uint64_t rows, std::uint64_t drawn) {
  ensure(busy_ns.size() == busy_ns_.size(), "a step runs on every stage");
  for (std::size_t i = 0; i < busy_ns.size(); ++i) busy_ns_[i] += std::max<std::int64_t>(busy_ns[i], 0);
  ++steps_;
  rows_ += rows;
  drawn_ += drawn;
}

double stage_balance::work(std::size_t stage, std::uint32_t layers) const noexcept {
  return static_cast<double>(layers) * static_cast<double>(rows_) + beside_[stage] * static_cast<double>(drawn_);
}

void stage_balance::begin_window() {
  std::ranges::fill(busy_ns_, 0);
  steps_ = rows_ = drawn_ = 0;
}

std::vector<std::uint32_t> stage_balance::best_for(const std::vector<double>& work_ns) const {
  std::vector<std::uint32_t> out(layers_.size(), 1);
  const auto all = std::accumulate(layers_.begin(), layers_.end(), std::uint32_t{0});
  for (auto given = static_cast<std::uint32_t>(out.size()); given < all; ++given) {
    std::size_t to = 0;
    const auto load_with = [&](std::size_t stage) { return work_ns[stage] * work(stage, out[stage] + 1); };
    const auto lacks = [&](std::size_t stage) { return std::int64_t{layers_[stage]} - out[stage]; };
    for (std::size_t stage = 1; stage < out.size(); ++stage) {
      const auto less = load_with(stage) - load_with(to);
      // Of equals whoever has the layer already.
      if (less < 0 || (less == 0 && lacks(stage) > lacks(to))) to = stage;
    }
    ++out[to];
  }
  return out;
}

std::optional<layer_move> stage_balance::review() {
  if (!(settings_.gain_min > 0) || layers_.size() < 2 || steps_ < steps_min || rows_ == 0) return std::nullopt;
  const auto [least, slowest] = std::ranges::minmax(busy_ns_);
  if (least <= 0 || slowest < settings_.window_ns * waits_) return std::nullopt;
  std::vector<double> work_ns;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    work_ns.push_back(static_cast<double>(busy_ns_[i]) / work(i, layers_[i]));
  auto best = best_for(work_ns);
  double expected = 0;
  for (std::size_t i = 0; i < best.size(); ++i) expected = std::max(expected, work_ns[i] * work(i, best[i]));
  const auto steps = static_cast<double>(std::exchange(steps_, 0));
  const auto now = static_cast<double>(slowest);
  begin_window();
  const auto gain_min = settled_ ? settings_.gain_min : settings_.gain_min / 2;
  settled_ = best == layers_ || now - expected < gain_min * now;
  if (settled_) {
    if (++calm_ % calm_reviews == 0) waits_ = std::max(1U, waits_ / 2);
    return std::nullopt;
  }
  return layer_move{std::move(best), std::llround(now / steps), std::llround(expected / steps)};
}

void stage_balance::moved(std::vector<std::uint32_t> layers) {
  std::int64_t same_way = 0; // as the move before: above 0
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto change = std::int64_t{layers[i]} - layers_[i];
    same_way += change * std::exchange(last_change_[i], change);
  }
  if (same_way < 0) waits_ = std::min(waits_ * 2, waits_max);
  calm_ = 0;
  layers_ = std::move(layers);
  begin_window();
}

} // namespace godwit::protocols
