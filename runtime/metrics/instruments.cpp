#include <godwit/runtime/metrics/instruments.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace godwit::runtime::metrics {

histogram::histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {
  for (std::size_t i = 0; i < bounds_.size(); ++i)
    if (!std::isfinite(bounds_[i]) || (i > 0 && bounds_[i] <= bounds_[i - 1]))
      throw std::invalid_argument("histogram bounds must be finite and ascending");
}

void histogram::observe(double x) noexcept {
  if (std::isnan(x)) return; // would spoil the sum for ever
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), x) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(x, std::memory_order_relaxed);
}

histogram::snapshot histogram::read() const {
  auto out = snapshot();
  auto total = std::uint64_t{0};
  for (const auto& c : counts_) out.cumulative.push_back(total += c.load(std::memory_order_relaxed));
  out.sum = sum_.load(std::memory_order_relaxed);
  return out;
}

std::vector<double> exponential_bounds(double first, double factor, std::uint32_t count) {
  auto out = std::vector<double>();
  for (auto x = first; out.size() < count; x *= factor) out.push_back(x);
  return out;
}

} // namespace godwit::runtime::metrics
