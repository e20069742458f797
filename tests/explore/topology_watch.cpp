#include "explore/topology_watch.hpp"

#include <algorithm>

namespace godwit::explore {

using std::chrono::nanoseconds;

namespace {

constexpr nanoseconds settled = std::chrono::milliseconds(20);

} // namespace

std::size_t takers(const actors::topology& told) noexcept {
  return static_cast<std::size_t>(std::count_if(told.instances.begin(), told.instances.end(),
                                                [](const auto& entry) { return entry.takes_requests(); }));
}

topology_watch::news topology_watch::see(const actors::topology& told, nanoseconds now) {
  news out;
  out.other_head = told.version <= before_.version;
  if (out.other_head) before_ = {};
  for (const auto& entry : before_.instances) {
    const auto* same = told.find(entry.instance);
    const bool stays = same != nullptr && same->generation == entry.generation && same->llumlet;
    if (entry.llumlet && !stays) out.gone.push_back(entry);
    if (stays && same->role != entry.role) ++out.role_changes;
  }
  if (bounds_) judge(told, now);
  before_ = told;
  return out;
}

void topology_watch::judge(const actors::topology& told, nanoseconds now) {
  const auto there = std::to_string(told.instances.size()) + " there, " + std::to_string(takers(told)) +
                     " of them take requests, " + std::to_string(told.ordered) + " ordered";
  const auto since = [&](const std::optional<nanoseconds>& when) { return when && now - *when >= settled; };
  if (wrong_.empty() && told.ordered > before_.ordered && since(full_since_))
    wrong_ = "more than " + std::to_string(bounds_->instances_max) + " instances ordered: " + there;
  for (const auto& entry : before_.instances) {
    const auto* same = told.find(entry.instance);
    const bool drains = entry.takes_requests() && same != nullptr && same->draining;
    if (wrong_.empty() && drains && !by_hand_.contains(entry.instance) && since(few_since_))
      wrong_ = "an instance of " + std::to_string(bounds_->instances_min) + " is drained: " + there;
  }
  const auto note = [now](std::optional<nanoseconds>& when, bool holds) {
    if (!holds) when.reset();
    if (holds && !when) when = now;
  };
  note(full_since_, told.instances.size() + told.ordered >= bounds_->instances_max);
  note(few_since_, takers(told) <= bounds_->instances_min);
}

} // namespace godwit::explore
