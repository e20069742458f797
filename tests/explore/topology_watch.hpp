#pragma once

#include <godwit/actors/interfaces.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace godwit::explore {

/// Looks on while the head tells who is there: which instances were lost with what they ran, and whether autoscaling
/// keeps within its bounds.
///
/// A decision goes by news that may be a moment old: what it must not do counts only where the topology has forbidden
/// it for 20 ms. That is for clusters where nobody dies and stands still; elsewhere the caller does not ask.
class topology_watch {
public:
  struct bounds {
    std::uint32_t instances_min = 0, instances_max = 0;
  };
  /// Without bounds nothing is said of autoscaling.
  explicit topology_watch(std::optional<bounds> of_scaling = std::nullopt) : bounds_(of_scaling) {}

  struct news {
    bool other_head = false;
    /// Instances that are not there any more as they were: gone, or started anew.
    std::vector<actors::instance_entry> gone;
    std::uint32_t role_changes = 0; ///< of those that are there as before
  };
  news see(const actors::topology& told, std::chrono::nanoseconds now);
  /// An operator drains it, or has drained it: no decision of autoscaling's.
  void drained_by_hand(protocols::instance_id id) { by_hand_.insert(id); }
  /// Which bound autoscaling did not keep; empty: none.
  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }

private:
  void judge(const actors::topology& told, std::chrono::nanoseconds now);

  std::optional<bounds> bounds_;
  actors::topology before_;
  std::set<protocols::instance_id> by_hand_;
  std::optional<std::chrono::nanoseconds> full_since_, few_since_;
  std::string wrong_;
};

/// Instances that take requests.
[[nodiscard]] std::size_t takers(const actors::topology& told) noexcept;

} // namespace godwit::explore
