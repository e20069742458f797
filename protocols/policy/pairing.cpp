#include <godwit/protocols/policy/pairing.hpp>

#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace godwit::protocols {

namespace {

constexpr std::array names{std::pair{migration_policy::freeness, std::string_view{"freeness"}},
                           std::pair{migration_policy::defrag, std::string_view{"defrag"}},
                           std::pair{migration_policy::none, std::string_view{"none"}}};

struct node {
  instance_id instance;
  double freeness = 0;
  const load_report* load = nullptr;
  bool paired = false;
};

bool has_requests(const load_report& r) noexcept { return std::uint64_t{r.running} + r.waiting + r.migrating > 0; }

/// And demands all that is free or more, so that it does not start before somebody leaves.
bool head_waits(const load_report& r, double freeness, double below) noexcept {
  return r.waiting > 0 && freeness <= below;
}

class rules {
public:
  explicit rules(const pairing_settings& settings) noexcept : s_(settings) {}

  /// `slack`: 0 for those that are not marked yet, the hysteresis for those that are.
  [[nodiscard]] bool is_source(const node& n, double slack) const noexcept {
    if (!has_requests(*n.load)) return false;
    if (n.load->terminating) return true;
    if (!n.load->ready) return false;
    switch (s_.policy) {
    case migration_policy::none:
      return false;
    case migration_policy::defrag:
      return head_waits(*n.load, n.freeness, slack);
    case migration_policy::freeness:
      return n.freeness < s_.source_below + slack;
    }
    return false;
  }

  [[nodiscard]] static bool has_places(const load_report& r) noexcept {
    if (!r.ready || r.terminating) return false;
    if (r.waiting_max > 0 && r.waiting >= r.waiting_max) return false;
    return r.running_max == 0 || std::uint64_t{r.running} + r.migrating < r.running_max;
  }

  [[nodiscard]] bool go_together(const node& source, const node& destination, double slack) const noexcept {
    if (source.instance == destination.instance || !has_places(*destination.load)) return false;
    if (source.load->terminating) return destination.freeness > 0;
    return destination.freeness > s_.destination_above - slack && source.freeness < destination.freeness;
  }

private:
  const pairing_settings& s_;
};

using node_pair = std::pair<node*, node*>;

node* find(std::vector<node>& by_id, instance_id instance) {
  const auto place = std::ranges::lower_bound(by_id, instance, {}, &node::instance);
  return place != by_id.end() && place->instance == instance ? &*place : nullptr;
}

bool less_free(const node* a, const node* b) noexcept {
  return a->freeness != b->freeness ? a->freeness < b->freeness : a->instance < b->instance;
}
bool freer(const node* a, const node* b) noexcept {
  return a->freeness != b->freeness ? a->freeness > b->freeness : a->instance < b->instance;
}

/// Pairs may last though they move nothing any more. Where they have taken all destinations, those that terminate get
/// the freest of these.
void yield_to_drains(const std::vector<node>& nodes, std::vector<node_pair>& pairs, const rules& is) {
  std::size_t leaving = 0, left = 0;
  for (const auto& n : nodes) {
    if (n.paired) continue;
    if (is.is_source(n, 0))
      leaving += n.load->terminating ? 1 : 0;
    else
      left += rules::has_places(*n.load) && n.freeness > 0 ? 1 : 0;
  }
  for (; left < leaving; ++left) {
    auto best = pairs.end();
    for (auto pair = pairs.begin(); pair != pairs.end(); ++pair)
      if (!pair->first->load->terminating && pair->second->freeness > 0 &&
          (best == pairs.end() || freer(pair->second, best->second)))
        best = pair;
    if (best == pairs.end()) return;
    best->first->paired = best->second->paired = false;
    pairs.erase(best);
  }
}

} // namespace

std::string_view to_string(migration_policy policy) noexcept {
  for (const auto& [value, name] : names)
    if (value == policy) return name;
  return "unknown";
}

std::optional<migration_policy> parse_migration_policy(std::string_view name) noexcept {
  for (const auto& [value, known] : names)
    if (known == name) return value;
  return std::nullopt;
}

std::vector<std::string_view> migration_policy_names() {
  std::vector<std::string_view> list;
  for (const auto& entry : names) list.push_back(entry.second);
  return list;
}

migration_cause::kind mark_cause(const load_report& source) noexcept {
  if (source.terminating) return migration_cause::kind::drain;
  return head_waits(source, freeness(source), 0) ? migration_cause::kind::defrag : migration_cause::kind::freeness;
}

std::vector<migration_pair> pair_instances(const std::vector<load_report>& loads,
                                           const std::vector<migration_pair>& marked,
                                           const pairing_settings& settings) {
  std::vector<node> nodes;
  nodes.reserve(loads.size());
  for (const auto& load : loads) nodes.push_back({load.instance, freeness(load), &load, false});
  if (!std::ranges::is_sorted(nodes, {}, &node::instance)) std::ranges::sort(nodes, {}, &node::instance);

  const rules is{settings};
  std::vector<node_pair> pairs;
  for (const auto& pair : marked) {
    auto* source = find(nodes, pair.source);
    auto* destination = find(nodes, pair.destination);
    if (source == nullptr || destination == nullptr || source->paired || destination->paired) continue;
    if (!is.is_source(*source, settings.hysteresis) || !is.go_together(*source, *destination, settings.hysteresis))
      continue;
    source->paired = destination->paired = true;
    pairs.emplace_back(source, destination);
  }
  yield_to_drains(nodes, pairs, is);

  std::vector<node*> sources;
  std::vector<node*> destinations;
  for (auto& n : nodes) {
    if (n.paired) continue;
    if (is.is_source(n, 0))
      sources.push_back(&n);
    else if (rules::has_places(*n.load))
      destinations.push_back(&n);
  }
  std::ranges::sort(sources, less_free);
  std::ranges::sort(destinations, freer);
  // Whoever terminates comes first and is content with less; when one of the others is not content with the freest that
  // is left, none behind it is, since those have more themselves and would get less.
  for (std::size_t i = 0; i < std::min(sources.size(), destinations.size()); ++i) {
    if (!is.go_together(*sources[i], *destinations[i], 0)) break;
    pairs.emplace_back(sources[i], destinations[i]);
  }

  std::ranges::sort(pairs, less_free, &node_pair::first);
  std::vector<migration_pair> result;
  result.reserve(pairs.size());
  for (const auto& [source, destination] : pairs) result.push_back({source->instance, destination->instance});
  return result;
}

} // namespace godwit::protocols
