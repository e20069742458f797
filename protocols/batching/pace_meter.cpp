#include <godwit/protocols/batching/pace_meter.hpp>

#include <godwit/protocols/policy/expected_latency.hpp>

#include <algorithm>
#include <cmath>

namespace godwit::protocols {

namespace {

constexpr double decodes_kept = 8;
constexpr double light_kept = 16;
constexpr double starts_kept = 64;
constexpr double overlap_least = 1.0 / 64; // as many steps as ever overlap
constexpr double slow_at_most = 8;         // times as long as usual
constexpr double tokens_least = 4;         // steps that say something of one unknown
constexpr double pairs_least = 16;         // and of two
constexpr double tokens_clear = 2;         // standard errors beyond which it is no chance
constexpr double pairs_clear = 4;          // the same
constexpr double outdated_keep = 0.25;     // of what the last step has shown to be wrong
constexpr std::uint32_t light_tokens = 16; // of prompts, which cost nothing beside the step itself
constexpr std::uint32_t light_decodes = 4;

/// A mean of about the last `kept`. One that stands out counts as what is slow at most.
void approach(double& mean, double value, double kept) noexcept {
  mean = mean == 0 ? value : mean + (std::min(value, slow_at_most * mean) - mean) / kept;
}

} // namespace

void pace_meter::took(const step_sample& step) noexcept {
  const auto ns = static_cast<double>(step.took_ns);
  if (step.took_ns <= 0) return;
  const double alone = step.alone_ns >= 0 ? std::min(static_cast<double>(step.alone_ns) / ns, 1.0) : 1.0; // share of it
  if (alone < 1 || alone_share_ < 1) alone_share_ += (alone - alone_share_) / decodes_kept;
  if (step.prompt_tokens <= light_tokens && step.decodes <= light_decodes) approach(light_, ns, light_kept);
  if (step.decoding > 0 && step.decoded_tokens > 0)
    approach(decode_, ns * step.decoding / step.decoded_tokens, decodes_kept);
  if (step.prompt_tokens > 0) {
    prompt_ns_ += alone * (step.decodes > 0 ? std::max(ns - without_prompts(step.decodes), 0.0) : ns);
    fit(step);
  } else if (step.decodes > 0) {
    approach(base_, ns, decodes_kept);
    approach(base_count_, step.decodes, decodes_kept);
  }
  blocks_.took(alone * ns, step.blocks_granted, step.blocks_used);
  places_.took(alone * ns, step.places_granted, step.places_used);
}

void pace_meter::fit(const step_sample& step) noexcept {
  const double n = step.prompt_tokens, p = step.prompt_pairs;
  const double base = without_prompts(step.decodes);
  // What is measured of steps without prompts varies, and may be too much as yet.
  double ns = std::max(static_cast<double>(step.took_ns) - base, -base / 2);
  double keep = 1 - 1 / prompts_kept;
  if (const double usual = n * token_ + p * pair_; usual > 0) {
    // Once the machine stood still; what goes on being slow is seen all the same, by and by.
    ns = std::min(ns, slow_at_most * usual + base);
    // What was so, and is no longer, need not be waited for.
    if (ns < usual / 4 && ns < usual - base) keep = outdated_keep;
  } else if (tokens2_ > 0 && n * tokens_ns_ / tokens2_ < -base / 4 && ns > 0) {
    keep = outdated_keep;
  }
  tokens2_ = tokens2_ * keep + n * n;
  pairs2_ = pairs2_ * keep + p * p;
  tokens_pairs_ = tokens_pairs_ * keep + n * p;
  tokens_ns_ = tokens_ns_ * keep + n * ns;
  pairs_ns_ = pairs_ns_ * keep + p * ns;
  ns2_ = ns2_ * keep + ns * ns;
  prompts_ = prompts_ * keep + 1;
  tell_apart();
}

// What chance makes of a few short prompts would be minutes for a long one.
void pace_meter::tell_apart() noexcept {
  token_ = std::max(tokens_ns_ / tokens2_, 0.0);
  pair_ = 0;
  const double of_tokens = token_ * tokens_ns_;        // squares that the tokens alone explain
  const double left = std::max(ns2_ - of_tokens, 0.0); // and leave
  if (prompts_ >= tokens_least && of_tokens < tokens_clear * tokens_clear * left / (prompts_ - 1)) token_ = 0;
  // Where n and p go together, this one share of p's own weight puts all down to n.
  const double pairs2 = pairs2_ * (1 + 1e-6);
  const double determinant = tokens2_ * pairs2 - tokens_pairs_ * tokens_pairs_;
  if (prompts_ < pairs_least || determinant <= 0) return;
  const double token = (tokens_ns_ * pairs2 - pairs_ns_ * tokens_pairs_) / determinant;
  const double pair = (pairs_ns_ * tokens2_ - tokens_ns_ * tokens_pairs_) / determinant;
  const double of_pairs = pair * pair * (pairs2_ - tokens_pairs_ * tokens_pairs_ / tokens2_);
  if (pair <= 0 || of_pairs < pairs_clear * pairs_clear * std::max(left - of_pairs, 0.0) / (prompts_ - 2)) return;
  token_ = std::max(token, 0.0);
  pair_ = token > 0 ? pair : pairs_ns_ / pairs2_;
}

double pace_meter::without_prompts(double decoding) const noexcept {
  if (base_count_ == 0) return light_;
  if (light_ == 0) return base_ * std::min(1.0, decoding / base_count_);
  const double light = std::min(light_, base_); // which is news where there are no light steps
  const double share = std::clamp((decoding - 1) / std::max(base_count_ - 1, 1.0), 0.0, 1.0);
  return light + (base_ - light) * share;
}

void pace_meter::started(std::uint32_t tokens, std::uint32_t missed) noexcept {
  constexpr double keep = 1 - 1 / starts_kept;
  looked_up_ = looked_up_ * keep + tokens;
  missed_ = missed_ * keep + missed;
}

double pace_meter::prompt_ns(std::uint64_t first, std::uint64_t upto) const noexcept {
  if (!knows_prompts() || upto <= first) return 0;
  return token_ * static_cast<double>(upto - first) + pair_ * attention_pairs(first, upto);
}

void pace_meter::flow::took(double ns, std::int64_t granted, std::uint64_t used_now) noexcept {
  const double keep = 1 / (1 + ns / flow_kept_ns);
  const double before = std::max(static_cast<double>(used) + static_cast<double>(granted), 0.0);
  left = left * keep + before - static_cast<double>(used_now);
  used_ns = used_ns * keep + ns * before;
  used = used_now;
}

double pace_meter::flow::until_next(std::uint64_t used_now) const noexcept {
  const auto now = static_cast<double>(std::max<std::uint64_t>(used_now, 1));
  const double usual = now * usual_weight_ns;
  const double rate = (left + usual / usual_stay_ns) / (used_ns + usual);
  return 1 / (now * std::max(rate, 1 / longest_stay_ns));
}

step_pace pace_meter::pace(std::size_t decoding, std::uint64_t blocks_used, std::uint64_t places_used) const noexcept {
  step_pace out;
  out.step = without_prompts(static_cast<double>(decoding));
  out.light = base_count_ > 0 ? std::min(light_, base_) : light_;
  if (decoding > 0) out.decode = decode_;
  out.overlap = 1 / std::max(alone_share_, overlap_least);
  out.knows_prompts = prompts_ > 0;
  out.token = token_;
  out.pair = pair_;
  out.block = blocks_.until_next(blocks_used);
  out.place = places_.until_next(places_used);
  return out;
}

} // namespace godwit::protocols
