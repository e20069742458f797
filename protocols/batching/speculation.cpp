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

/// How many last tokens of both are equal, up to `most`.
std::size_t equal_before(std::span<const token_id> a, std::span<const token_id> b, std::size_t most) {
  most = std::min({most, a.size(), b.size()});
  std::size_t equal = 0;
  while (equal < most && a[a.size() - 1 - equal] == b[b.size() - 1 - equal]) ++equal;
  return equal;
}

/// Places that a search compares, in each direction: text is made by others.
constexpr std::size_t places_max = 128;

} // namespace

std::string speculation_settings::validate() const {
  if (tokens_max > tokens_limit)
    return "a request drafts at most " + std::to_string(tokens_limit) + " tokens in a step, not " +
           std::to_string(tokens_max);
  if (prediction_max > tokens_limit)
    return "a request drafts at most " + std::to_string(tokens_limit) + " tokens of its prediction in a step, not " +
           std::to_string(prediction_max);
  if (model_max > tokens_limit)
    return "a draft model drafts at most " + std::to_string(tokens_limit) + " tokens for a request in a step, not " +
           std::to_string(model_max);
  if (lookup_min == 0) return "a draft needs at least one token that was there before";
  if (lookup_max < lookup_min)
    return "the longest end that is looked up (" + std::to_string(lookup_max) + ") is shorter than the shortest (" +
           std::to_string(lookup_min) + ")";
  if (lookup_max > lookup_limit)
    return "at most " + std::to_string(lookup_limit) + " last tokens are looked up, not " + std::to_string(lookup_max);
  return {};
}

void draft_by_lookup(std::span<const token_id> tokens, const speculation_settings& settings, std::uint32_t count,
                     std::vector<token_id>& drafts) {
  if (tokens.size() <= settings.lookup_min || count == 0) return;
  const auto seen = tokens.last(std::min<std::size_t>(tokens.size(), speculation_settings::lookback));
  const auto end = seen.size();
  const auto last = seen[end - 1];
  std::size_t best = none, length = 0; // of the token behind the place, and of what is equal before it
  auto at = last_place(seen, 0, end - 1, last);
  for (std::size_t looks = 0; at != none && looks < places_max; at = last_place(seen, 0, at, last), ++looks) {
    const auto equal = equal_before(seen.first(at + 1), seen, settings.lookup_max);
    if (equal <= length) continue;
    length = equal;
    best = at + 1;
    if (equal == settings.lookup_max) break;
  }
  if (length < settings.lookup_min) return;
  const auto distance = end - best;
  for (std::size_t i = 0; i < count; ++i)
    drafts.push_back(i < distance ? seen[best + i] : drafts[drafts.size() - distance]);
}

void draft_by_prediction(std::span<const token_id> answer, std::span<const token_id> prediction,
                         const speculation_settings& settings, std::uint32_t count, std::vector<token_id>& drafts) {
  if (answer.empty() || count == 0) return;
  constexpr std::size_t compared = speculation_settings::lookup_limit, reach = 8192;
  const auto last = answer.back();
  const auto here = std::min(prediction.size(), answer.size());
  std::size_t best = none, length = 0, distance = 0;
  const auto look = [&](std::size_t at) { // true: further ones in this direction are no better
    const auto place = at + 1;
    auto equal = equal_before(prediction.first(place), answer, compared);
    if (equal == place && equal == answer.size()) equal = compared; // all of it is as predicted
    const auto away = place > answer.size() ? place - answer.size() : answer.size() - place;
    if (equal < settings.lookup_min || equal < length || (equal == length && away >= distance)) return false;
    length = equal;
    best = place;
    distance = away;
    return equal == compared;
  };
  const auto first = answer.size() - std::min(answer.size(), reach);
  auto at = first < here ? last_place(prediction, first, here, last) : none;
  for (std::size_t looks = 0; at != none && looks < places_max; at = last_place(prediction, first, at, last), ++looks)
    if (look(at)) break;
  const auto upto =
      prediction.begin() + static_cast<std::ptrdiff_t>(std::min(prediction.size(), answer.size() + reach));
  auto next = std::find(prediction.begin() + static_cast<std::ptrdiff_t>(here), upto, last);
  for (std::size_t looks = 0; next != upto && looks < places_max; next = std::find(next + 1, upto, last), ++looks)
    if (look(static_cast<std::size_t>(next - prediction.begin()))) break;
  if (best == none) return;
  const auto behind = prediction.subspan(best, std::min<std::size_t>(count, prediction.size() - best));
  drafts.insert(drafts.end(), behind.begin(), behind.end());
}

} // namespace godwit::protocols
