#include <godwit/protocols/decoding/beam_search.hpp>
#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace godwit::protocols {

namespace {

struct continuation {
  std::size_t beam = 0;
  token_logprob token;
  double logprob = 0; ///< of all of it
};

} // namespace

std::string beam_settings::validate() const {
  if (width == 0) return "a beam search has at least one beam";
  if (tokens_max == 0) return "a beam search draws at least one token";
  if (!(std::abs(length_penalty) <= length_penalty_max)) return "the length penalty of a beam search is from -10 to 10";
  return {};
}

beam_search::beam_search(beam_settings settings) : settings_(std::move(settings)), running_(1) {
  const auto wrong = settings_.validate();
  ensure(wrong.empty(), ("beam search: " + wrong).c_str());
}

double beam_search::score(double logprob, std::size_t tokens) const noexcept {
  return logprob / std::pow(static_cast<double>(tokens), settings_.length_penalty);
}

bool beam_search::may_end() const noexcept {
  return running_.empty() || running_.front().tokens.size() + 1 >= settings_.tokens_min;
}

std::uint32_t beam_search::wanted() const noexcept {
  return 2 * settings_.width + (may_end() ? 0 : static_cast<std::uint32_t>(settings_.ends.size()));
}

bool beam_search::ends(token_id token) const noexcept {
  return std::ranges::find(settings_.ends, token) != settings_.ends.end();
}

void beam_search::finish(beam one) {
  const auto score_of = [this](const beam& b) { return score(b.logprob, b.tokens.size()); };
  const auto place = std::ranges::upper_bound(finished_, score_of(one), std::greater{}, score_of);
  finished_.insert(place, std::move(one));
  if (finished_.size() > settings_.width) finished_.pop_back();
}

// More tokens make an answer less probable, and with a penalty above 0 its length is held in its favour.
bool beam_search::may_improve() const noexcept {
  if (finished_.size() < settings_.width) return true;
  const auto& best = running_.front();
  const auto length = settings_.length_penalty > 0 ? settings_.tokens_max : best.tokens.size() + 1;
  const auto& worst = finished_.back();
  return score(best.logprob, length) > score(worst.logprob, worst.tokens.size());
}

void beam_search::advance(std::span<const sampled_token> next) {
  ensure(!done() && next.size() == running_.size(), "beam search: a token for each beam that runs");
  std::vector<continuation> all;
  const auto has = running_.front().tokens.size();
  const std::size_t looked_at = std::size_t{2} * settings_.width;
  const bool any_may_end = may_end();
  for (std::size_t i = 0; i < next.size(); ++i) {
    std::size_t taken = 0;
    for (const auto& token : next[i].top) {
      if (!any_may_end && ends(token.id)) continue;
      if (taken++ == looked_at) break;
      all.push_back({i, token, running_[i].logprob + static_cast<double>(token.logprob)});
    }
  }
  std::ranges::stable_sort(all, std::greater{}, &continuation::logprob);
  if (all.size() > looked_at) all.resize(looked_at);

  const auto continued = [&](const continuation& c) {
    auto out = running_[c.beam];
    out.logprob = c.logprob;
    auto& token = out.tokens.emplace_back(c.token.id);
    token.logprob = c.token.logprob;
    const auto& top = next[c.beam].top;
    token.top.assign(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(
                                                    std::min<std::size_t>(top.size(), settings_.alternatives)));
    return out;
  };
  std::vector<beam> going_on;
  for (std::size_t rank = 0; rank < all.size() && going_on.size() < settings_.width; ++rank) {
    const auto& c = all[rank];
    if (!ends(c.token.id)) {
      going_on.push_back(continued(c));
    } else if (rank < settings_.width) {
      auto one = continued(c);
      one.ended = true;
      finish(std::move(one));
    }
  }
  running_ = std::move(going_on);
  if (running_.empty()) return;
  if (has + 1 == settings_.tokens_max)
    for (auto& one : std::exchange(running_, {})) finish(std::move(one));
  else if (!may_improve())
    running_.clear();
}

} // namespace godwit::protocols
