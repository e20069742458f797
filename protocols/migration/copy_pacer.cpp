#include <godwit/protocols/migration/copy_pacer.hpp>

#include <algorithm>

namespace godwit::protocols {

std::chrono::nanoseconds copy_pacer::rest(std::uint64_t bytes, std::uint64_t stretch,
                                          std::chrono::nanoseconds took) noexcept {
  if (bytes == 0 || granted_.share >= 1.0) return {};
  const auto size = static_cast<double>(bytes);
  const auto spent = static_cast<double>(took.count());
  paces_[count_++ % remembered] = spent / size;
  const auto best =
      *std::min_element(paces_.begin(), paces_.begin() + static_cast<std::ptrdiff_t>(std::min(count_, remembered)));
  const auto cost = best * size;
  auto period = cost / granted_.share;
  if (granted_.bytes_per_second > 0)
    period = std::max(std::min(period, size / granted_.bytes_per_second * 1e9), cost / granted_.share_max);
  // Its part of the time that the stretch may take.
  period = std::min(period, static_cast<double>(granted_.stretch_max.count()) * size /
                                static_cast<double>(std::max(stretch, bytes)));
  const auto rest = std::clamp(period - spent, 0.0, static_cast<double>(granted_.rest_max.count()));
  return std::chrono::nanoseconds(static_cast<std::chrono::nanoseconds::rep>(rest));
}

} // namespace godwit::protocols
