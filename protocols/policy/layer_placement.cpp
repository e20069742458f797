#include <godwit/protocols/policy/layer_placement.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace godwit::protocols {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// By more than sums of the same times in another order differ.
bool less(double a, double b) noexcept { return b == never ? a < b : a < b * (1 - 1e-12); }

/// Who has how many layers where a token comes in at `first` and leaves at `last`, and how long it is computed.
struct filling {
  std::vector<std::uint32_t> layers; ///< by device
  double seconds = 0;
};

class placing {
public:
  placing(const layered_model& model, std::span<const layer_host> devices, std::span<const double> hops)
      : model_(model), devices_(devices), hops_(hops), by_speed_(devices.size()) {
    std::iota(by_speed_.begin(), by_speed_.end(), std::size_t{0});
    std::ranges::stable_sort(by_speed_, [&](std::size_t a, std::size_t b) {
      return devices_[a].bytes_per_second > devices_[b].bytes_per_second;
    });
  }

  /// The fastest ones have as many as fit. Nothing where they do not hold the model, or one of them not a layer.
  [[nodiscard]] std::optional<filling> fill(std::uint32_t chosen, std::size_t first, std::size_t last) const {
    filling out;
    out.layers.resize(devices_.size());
    auto left = static_cast<std::int64_t>(model_.layers) - std::popcount(chosen);
    if (left < 0) return std::nullopt;
    for (const auto device : by_speed_) {
      if ((chosen >> device & 1U) == 0) continue;
      const auto room = room_of(device, device == first, device == last);
      if (room < 1) return std::nullopt;
      const auto more = std::min<std::int64_t>(left, room - 1);
      out.layers[device] = static_cast<std::uint32_t>(1 + more);
      left -= more;
      out.seconds += out.layers[device] * static_cast<double>(model_.layer_bytes) / devices_[device].bytes_per_second;
    }
    if (left > 0) return std::nullopt;
    out.seconds += static_cast<double>(model_.last_bytes) / devices_[last].bytes_per_second;
    return out;
  }

  /// The shortest way from `first` through all of `chosen` to each device, by (chosen, last).
  [[nodiscard]] std::vector<double> ways_from(std::size_t first) const {
    const auto count = devices_.size();
    std::vector<double> ways((std::size_t{1} << count) * count, never);
    ways[(std::size_t{1} << first) * count + first] = 0;
    for (std::size_t chosen = 0; chosen < std::size_t{1} << count; ++chosen)
      for (std::size_t last = 0; last < count; ++last) {
        const auto here = ways[chosen * count + last];
        if (here == never) continue;
        for (std::size_t next = 0; next < count; ++next) {
          if ((chosen >> next & 1U) != 0) continue;
          auto& there = ways[(chosen | std::size_t{1} << next) * count + next];
          there = std::min(there, here + hops_[last * count + next]);
        }
      }
    return ways;
  }

  /// The devices of the shortest way, backwards from its end.
  [[nodiscard]] std::vector<std::size_t> order(const std::vector<double>& ways, std::size_t chosen,
                                               std::size_t last) const {
    const auto count = devices_.size();
    std::vector<std::size_t> out{last};
    while (std::popcount(chosen) > 1) {
      const auto before = chosen & ~(std::size_t{1} << last);
      for (std::size_t from = 0; from < count; ++from) {
        const auto here = ways[before * count + from];
        if (here == never || here + hops_[from * count + last] != ways[chosen * count + last]) continue;
        out.push_back(from);
        chosen = before;
        last = from;
        break;
      }
    }
    std::ranges::reverse(out);
    return out;
  }

private:
  /// In layers.
  [[nodiscard]] std::int64_t room_of(std::size_t device, bool first, bool last) const {
    const auto taken =
        (first ? model_.first_bytes : 0) + (last ? model_.last_bytes : 0) - (first && last ? model_.shared_bytes : 0);
    const auto memory = devices_[device].memory_bytes;
    const auto each = std::max<std::uint64_t>(1, model_.layer_bytes + model_.layer_reserve);
    return memory < taken ? 0 : static_cast<std::int64_t>(std::min<std::uint64_t>((memory - taken) / each, 1U << 30U));
  }

  const layered_model& model_;
  std::span<const layer_host> devices_;
  std::span<const double> hops_;
  std::vector<std::size_t> by_speed_;
};

} // namespace

expected<layer_placement, std::string> place_layers(const layered_model& model, std::span<const layer_host> devices,
                                                    std::span<const double> hops, double device_seconds) {
  const auto count = devices.size();
  if (count == 0 || count > layer_hosts_max)
    return unexpected("1 to " + std::to_string(layer_hosts_max) + " devices can be chosen from, not " +
                      std::to_string(count));
  if (std::ranges::any_of(devices, [](const layer_host& d) { return !(d.bytes_per_second > 0); }))
    return unexpected(std::string("a device reads nothing in a second"));
  if (hops.size() != count * count) return unexpected(std::string("the distance of each device to each is wanted"));
  const placing all(model, devices, hops);
  double best = never;
  layer_placement out;
  for (std::size_t size = 1; size <= count; ++size) {
    auto quickest = never; // of this size
    layer_placement found;
    for (std::size_t first = 0; first < count; ++first) {
      const auto ways = all.ways_from(first);
      for (std::size_t chosen = 1; chosen < std::size_t{1} << count; ++chosen) {
        if (static_cast<std::size_t>(std::popcount(chosen)) != size) continue;
        for (std::size_t last = 0; last < count; ++last) {
          const auto way = ways[chosen * count + last];
          if (way == never) continue;
          const auto filled = all.fill(static_cast<std::uint32_t>(chosen), first, last);
          if (!filled) continue;
          const auto seconds = way + filled->seconds;
          if (!less(seconds, quickest)) continue;
          quickest = seconds;
          found = {{}, seconds, way};
          for (const auto device : all.order(ways, chosen, last))
            found.runs.push_back({device, filled->layers[device]});
        }
      }
    }
    const auto cost = quickest + device_seconds * static_cast<double>(size);
    if (found.runs.empty() || !less(cost, best)) continue;
    best = cost;
    out = std::move(found);
  }
  if (out.runs.empty()) return unexpected(std::string("the model does not fit on these devices together"));
  return out;
}

} // namespace godwit::protocols
