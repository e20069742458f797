#pragma once

#include <godwit/protocols/batching/step.hpp>
#include <godwit/protocols/messages/sampling.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::model {

struct token_mask;

/// Describes a token that is there already: its log-probability under `logits`, and the `top` most probable ones. NaN
/// counts as minus infinity; a token outside the vocabulary has that probability.
[[nodiscard]] protocols::sampled_token score(std::span<const float> logits, protocols::token_id token,
                                             std::int32_t top);

/// Why a slice for which no logit is left has no token, as half a line. `masked`: a schema forbids some.
[[nodiscard]] inline std::string why_none(const protocols::step_slice& slice, bool masked) {
  if (masked)
    return "every token that the schema allows is forbidden, or the model's logit for it is NaN or minus infinity";
  const std::string out = "every logit of the model is NaN or minus infinity";
  return slice.forbidden.empty() ? out : out + ", or its token is forbidden";
}

/// Draws one token from one row of logits.
///
/// Problem: an answer must not depend on its batch or its instance. So a draw is a pure function of the logits, of
/// slice.sampling, forbidden, prompt and generated, of the mask, and of one Philox number at (seed, sample_index). All
/// sums run in one fixed order, and the exponential is ours, since libm's differs between processors.
///
/// Order, as in vLLM's v1 sampler: log-probabilities of the raw logits; the mask of a constrained answer; forbidden
/// tokens (save where the mask leaves nothing but the end); logit_bias; penalties (repetition,
/// frequency, presence); greedy ends here (ties: the lowest id); temperature; min-p; top-k; top-p; the draw.
///
/// Contract: `logits` has one entry per vocabulary entry and is overwritten. A NaN counts as minus infinity: never
/// drawn. Plus infinity leaves only the entries that have it. Throws std::runtime_error with `why_none` when no token
/// is left (a broken model, or everything is forbidden). Ids outside the vocabulary in forbidden, prompt or generated
/// are ignored. Keeps scratch memory only: one sampler per thread, any number of requests.
class sampler {
public:
  /// `allowed`: what a constrained answer may go on with; absent: everything.
  [[nodiscard]] protocols::sampled_token draw(std::span<float> logits, const protocols::step_slice& slice,
                                              const token_mask* allowed = nullptr);

private:
  static void apply(const token_mask& allowed, std::span<float> logits);
  friend protocols::sampled_token score(std::span<const float>, protocols::token_id, std::int32_t);
  struct candidate {
    float weight;
    protocols::token_id id;
  };
  /// log-probability of a logit: logit - highest - log_sum
  struct normaliser {
    float highest = 0.0F;
    float log_sum = 0.0F;
  };
  void penalise(std::span<float> logits, const protocols::step_slice& slice);
  [[nodiscard]] normaliser describe(std::span<const float> logits, std::int32_t count,
                                    std::vector<protocols::token_logprob>& top);
  [[nodiscard]] protocols::token_id draw_random(std::span<const float> logits, float highest,
                                                const protocols::step_slice& slice);
  [[nodiscard]] protocols::token_id draw_filtered(double number, const protocols::sampling_params& sampling);

  std::vector<float> raw_;
  std::vector<float> weights_;
  std::vector<candidate> candidates_;
  std::vector<std::uint32_t> counts_; ///< by token; zero between draws
};

} // namespace godwit::gpu::model
