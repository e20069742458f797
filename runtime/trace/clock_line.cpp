#include "trace/clock_line.hpp"

#include <iterator>
#include <limits>
#include <numeric>

namespace godwit::runtime::trace {

namespace {

// Of a stretch: enough for some of them to have been fast.
constexpr std::size_t bounds_each_way = 32;
constexpr std::size_t stretches_max = 256;
// No clock drifts by a tenth; what looks like it is something else.
constexpr std::int64_t drift_least = 10;

/// The best bounds of a stretch of time.
struct stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::size_t lower = 0;
  std::size_t upper = 0;
  void add(const clock_bound& bound) noexcept {
    if (lower + upper == 0) begin = bound.at;
    end = bound.at;
    (bound.upper ? upper : lower) += 1;
    if (bound.upper)
      most = std::min(most, bound.add);
    else
      least = std::max(least, bound.add);
  }
};

} // namespace

clock_line clock_line::through(std::vector<clock_bound> bounds) {
  std::sort(bounds.begin(), bounds.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  const auto uppers = static_cast<std::size_t>(
      std::count_if(bounds.begin(), bounds.end(), [](const auto& each) { return each.upper; }));
  const auto needed = std::max(bounds_each_way, std::min(uppers, bounds.size() - uppers) / stretches_max);
  clock_line line;
  line.knots_.clear();
  stretch all;
  stretch now;
  for (const auto& each : bounds) {
    all.add(each);
    now.add(each);
    if (now.lower < needed || now.upper < needed) continue;
    const knot found{std::midpoint(now.begin, now.end), format::bounded(std::midpoint(now.least, now.most))};
    now = {};
    if (!line.knots_.empty()) {
      const auto& before = line.knots_.back();
      const auto length = found.at - before.at;
      const auto change = found.add - before.add;
      if (length <= 0 || change > length / drift_least || -change > length / drift_least) continue;
    }
    line.knots_.push_back(found);
  }
  if (line.knots_.size() < 2) return clock_line(format::bounded(std::midpoint(all.least, all.most)));
  return line;
}

double clock_line::parts_of_a_million() const noexcept {
  if (straight()) return 0;
  const auto& first = knots_.front();
  const auto& last = knots_.back();
  return 1e6 * static_cast<double>(last.add - first.add) / static_cast<double>(last.at - first.at);
}

std::int64_t clock_line::bend(std::int64_t time) const noexcept {
  if (straight()) return knots_.front().add;
  auto after = std::upper_bound(knots_.begin(), knots_.end(), time,
                                [](std::int64_t t, const knot& each) { return t < each.at; });
  if (after == knots_.begin()) ++after; // before the first and behind the last it goes on as it does beside them
  if (after == knots_.end()) --after;
  const auto& to = *after;
  const auto& from = *std::prev(after);
  const auto part = static_cast<double>(time - from.at) / static_cast<double>(to.at - from.at);
  const auto add = static_cast<double>(to.add - from.add) * part;
  constexpr auto most = static_cast<double>(format::time_max);
  return from.add + static_cast<std::int64_t>(std::clamp(add, -most, most));
}

} // namespace godwit::runtime::trace
