#include "trace/page_selection.hpp"

#include <godwit/runtime/trace/analysis/requests.hpp>

#include <algorithm>
#include <numeric>

namespace godwit::runtime::trace {

namespace {

using positions_by_id = std::vector<std::pair<event_id, std::size_t>>;

std::optional<std::size_t> position(const positions_by_id& in, event_id id) {
  const auto at = std::lower_bound(in.begin(), in.end(), id,
                                   [](const auto& entry, const event_id& wanted) { return entry.first < wanted; });
  if (at == in.end() || at->first != id) return std::nullopt;
  return at->second;
}

/// What `--request` means elsewhere, too, and the causes of that, up to the roots.
std::vector<std::size_t> of_requests(const recording& from, const std::vector<std::uint64_t>& requests) {
  const analysis::index all(from);
  std::vector<bool> taken(all.size());
  for (const auto request : requests)
    for (auto at : analysis::events_of(all, request))
      // Each step takes an event that was not taken before, so a malformed recording with a cycle ends as well.
      for (; at != analysis::nowhere && !taken[at]; at = all.cause(at)) taken[at] = true;
  // A request waits for steps of a device and for transfers that are not its own.
  for (analysis::position p = 0; p < all.size(); ++p)
    if (const auto cause = all.cause(p); all[p].kind == event_kind::span && cause != analysis::nowhere && taken[cause])
      taken[p] = true;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (taken[i]) out.push_back(i);
  return out;
}

} // namespace

std::optional<std::size_t> page_selection::find(event_id id) const { return position(positions, id); }

page_selection choose(const recording& from, const page_json_options& options) {
  page_selection out;
  if (!options.requests.empty()) {
    out.indexes = of_requests(from, options.requests);
    out.others = from.events.size() - out.indexes.size();
  } else {
    out.indexes.resize(from.events.size());
    std::iota(out.indexes.begin(), out.indexes.end(), std::size_t{0});
  }
  if (out.indexes.size() > options.events_max) {
    out.older = out.indexes.size() - options.events_max;
    out.indexes.erase(out.indexes.begin(), out.indexes.begin() + static_cast<std::ptrdiff_t>(out.older));
  }
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
