#include <godwit/protocols/batching/speculation.hpp>

#include <algorithm>
#include <cstddef>

namespace godwit::protocols {

namespace {

constexpr std::size_t none = ~std::size_t{0};

/// The last place of `wanted` in tokens[from, upto). Whole groups are passed over at once: the search is most of what a
/// draft costs.
std::size_t last_place(std::span<const token_id> tokens, std::size_t from, std::size_t upto, token_id wanted) {
  constexpr std::size_t group = 32;
  while (upto >= from + group) {
    const auto* const those = tokens.data() + upto - group;
    unsigned hits = 0;
    for (std::size_t i = 0; i < group; ++i) hits += those[i] == wanted ? 1U : 0U;
    if (hits != 0) break;
    upto -= group;
  }
  while (upto > from)
    if (tokens[--upto] == wanted) return upto;
  return none;
}

} // namespace

std::string speculation_settings::validate() const {
  if (tokens_max > tokens_limit)
    return "a request drafts at most " + std::to_string(tokens_limit) + " tokens in a step, not " +
           std::to_string(tokens_max);
  if (prediction_max > tokens_limit)
    return "a request drafts at most " + std::to_string(tokens_limit) + " tokens of its prediction in a step, not " +
           std::to_string(prediction_max);
  if (lookup_min == 0) return "a draft needs at least one token that was there before";
  if (lookup_max < lookup_min)
    return "the longest end that is looked up (" + std::to_string(lookup_max) + ") is shorter than the shortest (" +
           std::to_string(lookup_min) + ")";
  return {};
}

void draft_by_lookup(std::span<const token_id> tokens, const speculation_settings& settings, std::uint32_t count,
                     std::vector<token_id>& drafts) {
  if (tokens.size() <= settings.lookup_min || count == 0) return;
  const auto seen = tokens.last(std::min<std::size_t>(tokens.size(), speculation_settings::lookback));
  const auto end = seen.size();
  std::size_t best = none, length = 0; // of the token behind the place, and of what is equal before it
  for (auto last = last_place(seen, 0, end - 1, seen[end - 1]); last != none;
       last = last_place(seen, 0, last, seen[end - 1])) {
    const auto most = std::min<std::size_t>(settings.lookup_max, last + 1);
    std::size_t equal = 1;
    while (equal < most && seen[last - equal] == seen[end - 1 - equal]) ++equal;
    if (equal > length) {
      length = equal;
      best = last + 1;
      if (equal == settings.lookup_max) break;
    }
  }
  if (length < settings.lookup_min) return;
  const auto distance = end - best;
  for (std::size_t i = 0; i < count; ++i)
    drafts.push_back(i < distance ? seen[best + i] : drafts[drafts.size() - distance]);
}

void draft_by_prediction(std::span<const token_id> answer, std::span<const token_id> prediction,
                         const speculation_settings& settings, std::uint32_t count, std::vector<token_id>& drafts) {
  constexpr std::size_t compared_max = 16, reach = 8192; // bound what a step of a long prediction takes
  if (answer.empty()) return;
  const auto first = std::min(prediction.size(), answer.size() - std::min(answer.size(), reach));
  const auto last = std::min(prediction.size(), answer.size() + reach);
  const auto near_here = prediction.first(last);
  const auto from_here = [&answer](std::size_t place) {
    return place > answer.size() ? place - answer.size() : answer.size() - place;
  };
  std::size_t best = none, length = 0;
  for (auto at = std::find(near_here.begin() + static_cast<std::ptrdiff_t>(first), near_here.end(), answer.back());
       at != near_here.end(); at = std::find(at + 1, near_here.end(), answer.back())) {
    const auto place = static_cast<std::size_t>(at - near_here.begin()) + 1;
    const auto most = std::min({compared_max, place, answer.size()});
    std::size_t equal = 1;
    while (equal < most && prediction[place - 1 - equal] == answer[answer.size() - 1 - equal]) ++equal;
    if (equal == place && equal == answer.size()) equal = compared_max; // all of it is as predicted
    if (equal < settings.lookup_min || equal < length) continue;
    if (equal > length || from_here(place) < from_here(best)) {
      length = equal;
      best = place;
    }
  }
  if (best == none) return;
  const auto behind = prediction.subspan(best, std::min<std::size_t>(count, prediction.size() - best));
  drafts.insert(drafts.end(), behind.begin(), behind.end());
}

} // namespace godwit::protocols
