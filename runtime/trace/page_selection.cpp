#include "trace/page_selection.hpp"

#include <algorithm>
#include <unordered_set>

namespace godwit::runtime::trace {

namespace {

using positions_by_id = std::vector<std::pair<event_id, std::size_t>>;

std::optional<std::size_t> position(const positions_by_id& in, event_id id) {
  const auto at = std::lower_bound(in.begin(), in.end(), id,
                                   [](const auto& entry, const event_id& wanted) { return entry.first < wanted; });
  if (at == in.end() || at->first != id) return std::nullopt;
  return at->second;
}

/// Events about the requests, and the causes of those, up to the roots.
std::vector<std::size_t> of_requests(const recording& from, const std::vector<std::uint64_t>& requests) {
  positions_by_id all;
  all.reserve(from.events.size());
  for (std::size_t i = 0; i < from.events.size(); ++i) all.emplace_back(from.events[i].id, i);
  std::sort(all.begin(), all.end());
  const std::unordered_set<std::uint64_t> wanted(requests.begin(), requests.end());
  std::vector<bool> taken(from.events.size());
  for (std::size_t i = 0; i < from.events.size(); ++i) {
    if (!wanted.contains(from.events[i].request)) continue;
    // Each step takes an event that was not taken before, so a malformed recording with a cycle ends as well.
    for (std::optional<std::size_t> at = i; at && !taken[*at]; at = position(all, from.events[*at].cause))
      taken[*at] = true;
  }
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (taken[i]) out.push_back(i);
  return out;
}

} // namespace

std::optional<std::size_t> page_selection::find(event_id id) const { return position(positions, id); }

page_selection choose(const recording& from, const page_json_options& options) {
  page_selection out;
  if (!options.requests.empty())
    out.indexes = of_requests(from, options.requests);
  else
    for (std::size_t i = from.events.size() - std::min(from.events.size(), options.events_max); i < from.events.size();
         ++i)
      out.indexes.push_back(i);
  if (out.indexes.size() > options.events_max)
    out.indexes.erase(out.indexes.begin(), out.indexes.end() - static_cast<std::ptrdiff_t>(options.events_max));
  out.positions.reserve(out.indexes.size());
  for (std::size_t i = 0; i < out.indexes.size(); ++i) {
    const auto& e = from.events[out.indexes[i]];
    out.positions.emplace_back(e.id, i);
    const auto first = from.at(e) - std::max<std::int64_t>(0, e.begin_ns - e.queued_ns);
    if (i == 0 || first < out.origin_ns) out.origin_ns = first;
  }
  std::sort(out.positions.begin(), out.positions.end());
  return out;
}

} // namespace godwit::runtime::trace
