#include <godwit/protocols/workload/arrivals.hpp>
#include <godwit/protocols/workload/random.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace godwit::protocols::workload {

namespace {
constexpr std::uint64_t arrival_stream = 1;
constexpr double cv_max = 100.0;
// About 31 years: a very low rate stays within the clock's range.
constexpr double arrival_ns_max = 1e18;
} // namespace

bool arrival_process::all_at_once() const noexcept { return rate == 0.0 || std::isinf(rate); }

bool arrival_process::valid() const noexcept { return rate >= 0.0 && cv >= 0.0 && cv <= cv_max; }

std::vector<std::int64_t> arrival_times(const arrival_process& process, std::size_t count, std::uint64_t seed) {
  assert(process.valid());
  auto times = std::vector<std::int64_t>(count, 0);
  if (process.all_at_once()) return times;
  auto random = counter_random(seed, arrival_stream);
  const auto mean_ns = 1e9 / process.rate;
  const auto variance = process.cv * process.cv;
  auto now = 0.0;
  for (std::size_t i = 1; i < count; ++i) {
    auto gap = 1.0; // in mean gaps
    if (process.cv == 1.0)
      gap = -std::log(random.unit());
    else if (process.cv > 0.0)
      gap = random.gamma(1.0 / variance) * variance;
    now = std::min(now + gap * mean_ns, arrival_ns_max);
    times[i] = static_cast<std::int64_t>(now);
  }
  return times;
}

} // namespace godwit::protocols::workload
