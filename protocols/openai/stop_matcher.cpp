#include <godwit/protocols/openai/stop_matcher.hpp>

#include <godwit/protocols/ensure.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace godwit::protocols::openai {

namespace {

/// For each number of matched bytes, how many are still matched when the next byte differs (Knuth, Morris, Pratt 1977).
std::vector<std::uint32_t> fallback_of(std::string_view pattern) {
  std::vector<std::uint32_t> fallback(pattern.size() + 1, 0);
  std::uint32_t matched = 0;
  for (std::size_t i = 1; i < pattern.size(); ++i) {
    while (matched > 0 && pattern[i] != pattern[matched]) matched = fallback[matched];
    if (pattern[i] == pattern[matched]) ++matched;
    fallback[i + 1] = matched;
  }
  return fallback;
}

} // namespace

stop_patterns::stop_patterns(std::vector<std::string> asked_for, std::vector<std::string> own)
    : stops_(std::move(asked_for)), asked_for_(stops_.size()) {
  std::ranges::move(own, std::back_inserter(stops_));
  for (const auto& stop : stops_) {
    ensure(!stop.empty(), "stop_patterns: stop strings are not empty");
    fallback_.push_back(fallback_of(stop));
  }
}

stop_matcher::stop_matcher(std::shared_ptr<const stop_patterns> stops, bool include_stop)
    : stops_(std::move(stops)), state_(stops_ ? stops_->size() : 0, 0), include_stop_(include_stop) {}

stop_matcher::emission stop_matcher::push(std::string_view piece) {
  if (stopped_) return {};
  for (const char byte : piece) {
    held_ += byte;
    std::optional<std::size_t> matched;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      auto& state = state_[i];
      const auto& stop = (*stops_)[i];
      while (state > 0 && stop[state] != byte) state = stops_->fallback_[i][state];
      if (stop[state] == byte) ++state;
      if (state == stop.size() && (!matched || state > (*stops_)[*matched].size())) matched = i;
    }
    if (!matched) continue;
    stopped_ = true;
    if (!include_stop_ || !stops_->asked_for(*matched)) held_.resize(held_.size() - (*stops_)[*matched].size());
    return {std::exchange(held_, {}), matched};
  }
  const auto partial = state_.empty() ? 0U : *std::ranges::max_element(state_);
  emission out;
  out.text = held_.substr(0, held_.size() - partial);
  held_.erase(0, held_.size() - partial);
  return out;
}

std::string stop_matcher::finish() {
  stopped_ = true;
  return std::exchange(held_, {});
}

} // namespace godwit::protocols::openai
