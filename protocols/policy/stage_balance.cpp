#include <godwit/protocols/policy/stage_balance.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace godwit::protocols {

stage_balance::stage_balance(std::vector<std::uint32_t> layers, stage_balance_settings settings)
    : settings_(settings), layers_(std::move(layers)), last_change_(layers_.size()), window_(layers_.size()) {}

void stage_balance::ran(std::size_t stage, std::int64_t duration_ns) {
  auto& its = window_[stage];
  its.busy_ns += std::max<std::int64_t>(duration_ns, 0);
  ++its.parts;
}

void stage_balance::begin_window(std::int64_t now_ns) {
  std::ranges::fill(window_, measured{});
  since_ = now_ns;
}

std::vector<std::uint32_t> stage_balance::best_for(const std::vector<double>& layer_ns) const {
  std::vector<std::uint32_t> out(layers_.size(), 1);
  const auto all = std::accumulate(layers_.begin(), layers_.end(), std::uint32_t{0});
  for (auto given = static_cast<std::uint32_t>(out.size()); given < all; ++given) {
    std::size_t to = 0;
    const auto load_with = [&](std::size_t stage) { return layer_ns[stage] * (out[stage] + 1); };
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

std::optional<layer_move> stage_balance::review(std::int64_t now_ns) {
  if (settings_.gain_min <= 0 || layers_.size() < 2) return std::nullopt;
  if (!since_) since_ = now_ns;
  if (now_ns - *since_ < settings_.window_ns * waits_) return std::nullopt;
  if (std::ranges::any_of(window_, [](const measured& one) { return one.parts < parts_min; })) return std::nullopt;
  std::vector<double> layer_ns;
  double slowest = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto part = static_cast<double>(window_[i].busy_ns) / static_cast<double>(window_[i].parts);
    layer_ns.push_back(part / layers_[i]);
    slowest = std::max(slowest, part);
  }
  auto best = best_for(layer_ns);
  double expected = 0;
  for (std::size_t i = 0; i < best.size(); ++i) expected = std::max(expected, layer_ns[i] * best[i]);
  begin_window(now_ns);
  const auto gain_min = settled_ ? settings_.gain_min : settings_.gain_min / 2;
  settled_ = best == layers_ || slowest - expected < gain_min * slowest;
  if (settled_) {
    if (++calm_ % calm_reviews == 0) waits_ = std::max(1U, waits_ / 2);
    return std::nullopt;
  }
  return layer_move{std::move(best), std::llround(slowest), std::llround(expected)};
}

void stage_balance::moved(std::vector<std::uint32_t> layers, std::int64_t now_ns) {
  std::int64_t same_way = 0; // as the move before: above 0
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto change = std::int64_t{layers[i]} - layers_[i];
    same_way += change * std::exchange(last_change_[i], change);
  }
  if (same_way < 0) waits_ = std::min(waits_ * 2, waits_max);
  calm_ = 0;
  layers_ = std::move(layers);
  begin_window(now_ns);
}

} // namespace godwit::protocols
