#include <godwit/gpu/model/sampler.hpp>

#include "model/exponential.hpp"
#include <godwit/gpu/model/constraints.hpp>
#include <godwit/gpu/model/philox.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

namespace godwit::gpu::model {

namespace {

using protocols::token_id;

constexpr float lowest = -std::numeric_limits<float>::infinity();

struct best_entry {
  token_id id = -1;
  float logit = lowest;
};

/// Loops go over this many numbers side by side, whatever the processor: the order of a sum belongs to its value.
constexpr std::size_t lanes = 8;

float highest_of(std::span<const float> logits) {
  std::array<float, lanes> best;
  best.fill(lowest);
  std::size_t i = 0;
  for (; i + lanes <= logits.size(); i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      best[lane] = logits[i + lane] > best[lane] ? logits[i + lane] : best[lane];
  for (; i < logits.size(); ++i) best[0] = std::max(best[0], logits[i]);
  return *std::max_element(best.begin(), best.end());
}

/// Ties: the lowest id.
best_entry best_of(std::span<const float> logits) {
  const float highest = highest_of(logits);
  if (highest == lowest) return {};
  const auto place = std::find(logits.begin(), logits.end(), highest) - logits.begin();
  return {static_cast<token_id>(place), highest};
}

/// What each logit weighs against the highest one, e^((logit - highest) / temperature), and the sum of that.
double weigh(std::span<const float> logits, float highest, float temperature, std::span<float> weights) {
  if (std::isinf(highest)) {
    for (std::size_t i = 0; i < logits.size(); ++i) weights[i] = logits[i] == highest ? 1.0F : 0.0F;
  } else {
    for (std::size_t i = 0; i < logits.size(); ++i) weights[i] = exp_nonpositive((logits[i] - highest) / temperature);
  }
  std::array<double, lanes> sums{};
  std::size_t i = 0;
  for (; i + lanes <= weights.size(); i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += static_cast<double>(weights[i + lane]);
  for (; i < weights.size(); ++i) sums[0] += static_cast<double>(weights[i]);
  double sum = 0.0;
  for (const double part : sums) sum += part;
  return sum;
}

float logprob_of(float logit, float highest, float log_sum) {
  return (logit == highest ? 0.0F : logit - highest) - log_sum;
}

} // namespace

void sampler::penalise(std::span<float> logits, const protocols::step_slice& slice) {
  const auto& sampling = slice.sampling;
  if (counts_.size() < logits.size()) counts_.resize(logits.size());
  // Each token once, with how often it is there; the counts are zero again behind it.
  const auto for_each_count = [&](std::initializer_list<std::span<const token_id>> lists, auto&& apply) {
    const auto known = [&](token_id id) { return id >= 0 && static_cast<std::size_t>(id) < logits.size(); };
    for (const auto& list : lists)
      for (const auto id : list)
        if (known(id)) ++counts_[static_cast<std::size_t>(id)];
    for (const auto& list : lists)
      for (const auto id : list)
        if (const auto times = known(id) ? std::exchange(counts_[static_cast<std::size_t>(id)], 0U) : 0U; times != 0)
          apply(logits[static_cast<std::size_t>(id)], static_cast<float>(times));
  };
  if (sampling.repetition_penalty != 1.0F)
    for_each_count({slice.prompt, slice.generated}, [&](float& logit, float) {
      logit = logit > 0.0F ? logit / sampling.repetition_penalty : logit * sampling.repetition_penalty;
    });
  if (sampling.frequency_penalty != 0.0F || sampling.presence_penalty != 0.0F)
    for_each_count({slice.generated}, [&](float& logit, float times) {
      logit -= sampling.frequency_penalty * times;
      logit -= sampling.presence_penalty;
    });
}

sampler::normaliser sampler::describe(std::span<const float> logits, std::int32_t count,
                                      std::vector<protocols::token_logprob>& top) {
  const auto best = best_of(logits);
  weights_.resize(logits.size());
  const double sum = weigh(logits, best.logit, 1.0F, weights_);
  const normaliser result{best.logit, static_cast<float>(std::log(sum))};
  if (count == 0) return result;

  const auto wanted = std::min(static_cast<std::size_t>(count), logits.size());
  const auto before = [](const protocols::token_logprob& a, const protocols::token_logprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  };
  // A heap of the best so far, its worst in front.
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const protocols::token_logprob entry(static_cast<token_id>(i), logits[i]);
    if (top.size() == wanted) {
      if (!before(entry, top.front())) continue;
      std::pop_heap(top.begin(), top.end(), before);
      top.pop_back();
    }
    top.push_back(entry);
    std::push_heap(top.begin(), top.end(), before);
  }
  std::sort_heap(top.begin(), top.end(), before);
  for (auto& entry : top) entry.logprob = logprob_of(entry.logprob, result.highest, result.log_sum);
  return result;
}

token_id sampler::draw_random(std::span<const float> logits, float highest, const protocols::step_slice& slice) {
  const auto& sampling = slice.sampling;
  const double number = uniform(sampling.seed, slice.sample_index);
  weights_.resize(logits.size());
  const double sum = weigh(logits, highest, sampling.temperature, weights_);
  const bool narrows = sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < logits.size();
  if (sampling.min_p > 0.0F || narrows || sampling.top_p < 1.0F) return draw_filtered(number, sampling);

  double left = number * sum;
  token_id last = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] <= 0.0F) continue;
    last = static_cast<token_id>(i);
    left -= static_cast<double>(weights_[i]);
    if (left < 0.0) break;
  }
  return last;
}

/// Candidates stand with the most probable first, ties by id: an order that no sorting algorithm can change.
token_id sampler::draw_filtered(double number, const protocols::sampling_params& sampling) {
  const auto before = [](const candidate& a, const candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  // min-p is about the whole distribution, whose highest weight is 1.
  double kept = 0.0;
  for (const float weight : weights_) kept += weight >= sampling.min_p ? static_cast<double>(weight) : 0.0;
  const bool narrows = sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < weights_.size();
  // What weighs less than this is, all together, less than the part that top-p drops: no need to sort it.
  const double dust = narrows || sampling.top_p >= 1.0F ? 0.0
                                                        : 0.999 * (1.0 - static_cast<double>(sampling.top_p)) * kept /
                                                              static_cast<double>(weights_.size());
  const float least = std::max(sampling.min_p, static_cast<float>(dust));
  candidates_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i] > 0.0F && weights_[i] >= least) candidates_.push_back({weights_[i], static_cast<token_id>(i)});
  const auto place = [&](std::size_t n) { return candidates_.begin() + static_cast<std::ptrdiff_t>(n); };
  std::size_t sorted = 0;
  if (sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < candidates_.size()) {
    sorted = static_cast<std::size_t>(sampling.top_k);
    std::partial_sort(candidates_.begin(), place(sorted), candidates_.end(), before);
    candidates_.resize(sorted);
    kept = 0.0;
    for (const auto& entry : candidates_) kept += static_cast<double>(entry.weight);
  }
  // top-p is about what is left. Its set is usually small: sort as far as needed, eight times as far each time.
  const double goal = static_cast<double>(sampling.top_p) * kept;
  double reached = 0.0;
  std::size_t taken = 0;
  while (taken < candidates_.size() && (taken == 0 || sampling.top_p >= 1.0F || reached < goal)) {
    if (taken == sorted) {
      sorted = std::min(candidates_.size(), std::max<std::size_t>(64, sorted * 8));
      std::partial_sort(place(taken), place(sorted), candidates_.end(), before);
    }
    reached += static_cast<double>(candidates_[taken++].weight);
  }
  double left = number * reached;
  for (std::size_t i = 0; i < taken; ++i) {
    left -= static_cast<double>(candidates_[i].weight);
    if (left < 0.0) return candidates_[i].id;
  }
  return candidates_[taken - 1].id;
}

void sampler::apply(const token_mask& allowed, std::span<float> logits) {
  for (std::size_t first = 0; first < logits.size(); first += 64) {
    const auto word = first / 64 < allowed.words.size() ? allowed.words[first / 64] : 0;
    if (word == ~std::uint64_t{0}) continue;
    const auto count = std::min<std::size_t>(64, logits.size() - first);
    for (std::size_t i = 0; i < count; ++i)
      if ((word >> i & 1U) == 0) logits[first + i] = lowest;
  }
}

protocols::sampled_token sampler::draw(std::span<float> logits, const protocols::step_slice& slice,
                                       const token_mask* allowed) {
  const auto& sampling = slice.sampling;
  for (float& logit : logits) logit = logit == logit ? logit : lowest;

  protocols::sampled_token drawn;
  normaliser whole;
  if (sampling.logprobs >= 0) {
    raw_.assign(logits.begin(), logits.end());
    whole = describe(logits, sampling.logprobs, drawn.top);
  }
  if (allowed != nullptr) apply(*allowed, logits);
  // A schema that has to end here ends, whatever else forbids it (min_tokens).
  const bool must_end = allowed != nullptr && allowed->must_end;
  for (const auto id : slice.forbidden)
    if (id >= 0 && static_cast<std::size_t>(id) < logits.size() && !(must_end && allowed->allows(id)))
      logits[static_cast<std::size_t>(id)] = lowest;
  for (const auto& bias : sampling.logit_bias)
    if (bias.id >= 0 && static_cast<std::size_t>(bias.id) < logits.size())
      logits[static_cast<std::size_t>(bias.id)] += bias.bias;
  if (sampling.penalised()) penalise(logits, slice);

  const auto best = best_of(logits);
  if (best.id < 0) throw std::runtime_error(why_none(slice, allowed != nullptr));
  drawn.id = sampling.greedy() ? best.id : draw_random(logits, best.logit, slice);
  if (sampling.logprobs >= 0)
    drawn.logprob = logprob_of(raw_[static_cast<std::size_t>(drawn.id)], whole.highest, whole.log_sum);
  return drawn;
}

protocols::sampled_token score(std::span<const float> logits, token_id token, std::int32_t top) {
  sampler own;
  std::vector<float> clean(logits.begin(), logits.end());
  for (float& logit : clean) logit = logit == logit ? logit : lowest;
  protocols::sampled_token scored{token};
  const auto whole = own.describe(clean, top, scored.top);
  const bool known = token >= 0 && static_cast<std::size_t>(token) < clean.size();
  scored.logprob = logprob_of(known ? clean[static_cast<std::size_t>(token)] : lowest, whole.highest, whole.log_sum);
  return scored;
}

} // namespace godwit::gpu::model
