#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

namespace godwit::runtime::sim::detail {

/// Functions by the time at which they are due. Equal times: as they were added.
class timer_queue {
public:
  std::uint64_t add(std::chrono::nanoseconds time, std::function<void()> function) {
    due_.emplace(key{time, ++last_}, std::move(function));
    times_.emplace(last_, time);
    return last_;
  }
  bool cancel(std::uint64_t id) {
    const auto found = times_.find(id);
    if (found == times_.end()) return false;
    due_.erase(key{found->second, id});
    times_.erase(found);
    return true;
  }
  [[nodiscard]] bool empty() const noexcept { return due_.empty(); }
  [[nodiscard]] std::chrono::nanoseconds earliest() const noexcept { return due_.begin()->first.first; }
  void fire_one() {
    auto first = due_.extract(due_.begin());
    times_.erase(first.key().second);
    first.mapped()();
  }
  void clear() {
    times_.clear();
    // closures may cancel others while they are destroyed
    const auto gone = std::exchange(due_, {});
  }

private:
  using key = std::pair<std::chrono::nanoseconds, std::uint64_t>;
  std::uint64_t last_ = 0;
  std::map<key, std::function<void()>> due_;
  std::unordered_map<std::uint64_t, std::chrono::nanoseconds> times_;
};

} // namespace godwit::runtime::sim::detail
