#include <godwit/protocols/policy/pairing.hpp>

#include <godwit/protocols/policy/freeness.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace godwit::protocols {

namespace {

constexpr std::array names{std::pair{migration_policy::freeness, std::string_view{"freeness"}},
                           std::pair{migration_policy::defrag, std::string_view{"defrag"}},
                           std::pair{migration_policy::none, std::string_view{"none"}},
                           std::pair{migration_policy::never, std::string_view{"never"}}};

struct node {
  instance_id instance;
  double freeness = 0;
  const load_report* load = nullptr;
  bool taken = false; ///< as a destination
};

bool has_requests(const load_report& r) noexcept { return std::uint64_t{r.running} + r.waiting + r.migrating > 0; }

/// And demands all that is free or more, so that it does not start before somebody leaves. What is kept free as
/// headroom keeps nobody from starting.
bool head_waits(const load_report& r) noexcept { return r.waiting > 0 && !has_memory_left(r); }

bool prefills(const load_report& r) noexcept { return r.role == instance_role::prefill; }

class rules {
public:
  explicit rules(const pairing_settings& settings) noexcept : s_(settings) {}

  [[nodiscard]] bool is_source(const node& n) const noexcept {
    if (!has_requests(*n.load) || s_.policy == migration_policy::never) return false;
    if (n.load->terminating) return true;
    if (!n.load->ready) return false;
    switch (s_.policy) {
    case migration_policy::never:
    case migration_policy::none:
      return false;
    case migration_policy::defrag:
      return head_waits(*n.load);
    case migration_policy::freeness:
      return n.freeness < s_.source_below;
    }
    return false;
  }

  [[nodiscard]] static bool has_places(const load_report& r) noexcept {
    if (!r.ready || r.terminating) return false;
    if (r.waiting_max > 0 && r.waiting >= r.waiting_max) return false;
    return r.running_max == 0 || r.places_taken() < r.running_max;
  }

  /// Of a source that does not terminate.
  [[nodiscard]] bool go_together(const node& source, const node& destination) const noexcept {
    return destination.freeness > s_.destination_above && source.freeness < destination.freeness;
  }

private:
  const pairing_settings& s_;
};

bool less_free(const node* a, const node* b) noexcept {
  return a->freeness != b->freeness ? a->freeness < b->freeness : a->instance < b->instance;
}
bool freer(const node* a, const node* b) noexcept {
  return a->freeness != b->freeness ? a->freeness > b->freeness : a->instance < b->instance;
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

bool hands_over(const load_report& source, const load_report& destination) noexcept {
  return !source.terminating && prefills(source) && !prefills(destination);
}

migration_cause::kind mark_cause(const load_report& source, const load_report& destination) noexcept {
  if (source.terminating) return migration_cause::kind::drain;
  if (hands_over(source, destination)) return migration_cause::kind::handoff;
  return head_waits(source) ? migration_cause::kind::defrag : migration_cause::kind::freeness;
}

namespace {

/// Those that have a place and memory for one more, the freest first.
std::vector<node*> with_room(const std::vector<node*>& all) {
  std::vector<node*> found;
  std::ranges::copy_if(all, std::back_inserter(found),
                       [](const node* n) { return rules::has_places(*n->load) && has_memory_left(*n->load); });
  std::ranges::sort(found, freer);
  return found;
}

/// Takes one of these from the front, and who has been taken elsewhere with it. Null: none is left.
node* next_of(std::vector<node*>& hosts, std::size_t& at) {
  while (at < hosts.size() && hosts[at]->taken) ++at;
  return at < hosts.size() ? hosts[at++] : nullptr;
}

/// Of instances of one kind.
std::vector<migration_pair> pair_kind(std::vector<node>& nodes, const pairing_settings& settings, std::uint64_t round) {
  const rules is{settings};
  std::vector<node*> takers; // of what is prefilled elsewhere
  if (settings.handoff && settings.policy != migration_policy::never)
    for (auto& n : nodes)
      if (!prefills(*n.load) && n.freeness > settings.destination_above) takers.push_back(&n);
  takers = with_room(takers);
  std::vector<node*> leaving;
  std::vector<node*> sources;
  std::vector<node*> destinations;
  std::vector<node*> prefill; // which have nothing to do with these
  for (auto& n : nodes) {
    if (!takers.empty() && prefills(*n.load) && !n.load->terminating)
      prefill.push_back(&n);
    else if (is.is_source(n))
      (n.load->terminating ? leaving : sources).push_back(&n);
    else if (rules::has_places(*n.load))
      destinations.push_back(&n);
  }
  std::ranges::sort(leaving, less_free);
  std::ranges::sort(sources, less_free);
  std::ranges::sort(destinations, freer);
  std::ranges::sort(prefill, less_free);

  std::vector<migration_pair> result;
  // Whoever terminates comes first and is content with less: where all others are busy, with one that is a source.
  if (!leaving.empty()) {
    auto usual = destinations;
    usual.insert(usual.end(), sources.begin(), sources.end());
    usual = with_room(usual);
    auto apart = with_room(prefill); // for prompts; what decodes would leave these again
    std::size_t next_usual = 0, next_apart = 0;
    std::ranges::rotate(leaving, leaving.begin() + static_cast<std::ptrdiff_t>(round % leaving.size()));
    for (auto* const source : leaving) {
      auto* host = prefills(*source->load) ? next_of(apart, next_apart) : nullptr;
      if (host == nullptr) host = next_of(usual, next_usual);
      if (host == nullptr) host = next_of(apart, next_apart);
      if (host == nullptr) break;
      host->taken = true;
      result.push_back({source->instance, host->instance});
    }
    const auto taken = [](const node* n) { return n->taken; };
    std::erase_if(sources, taken);
    std::erase_if(destinations, taken);
  }
  // When one is not content with the freest that is left, none behind it is: it has as much itself or more, and would
  // get less.
  for (std::size_t i = 0; i < std::min(sources.size(), destinations.size()); ++i) {
    if (!is.go_together(*sources[i], *destinations[i])) break;
    result.push_back({sources[i]->instance, destinations[i]->instance});
  }
  for (std::size_t i = 0; i < prefill.size(); ++i)
    for (std::size_t k = 0; prefill[i]->load->ready && k < std::min(takers.size(), handoff_destinations); ++k)
      result.push_back({prefill[i]->instance, takers[(i + k) % takers.size()]->instance});
  return result;
}

} // namespace

std::vector<migration_pair> pair_instances(const std::vector<load_report>& loads, const pairing_settings& settings,
                                           std::uint64_t round) {
  std::map<std::uint64_t, std::vector<node>> kinds;
  for (const auto& load : loads) kinds[load.kv_kind].push_back({load.instance, freeness(load), &load});
  std::vector<migration_pair> result;
  for (auto& [kind, nodes] : kinds) {
    auto pairs = pair_kind(nodes, settings, round);
    result.insert(result.end(), pairs.begin(), pairs.end());
  }
  return result;
}

} // namespace godwit::protocols
