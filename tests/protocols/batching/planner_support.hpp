#pragma once

#include <godwit/protocols/batching/planner.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

/// What tests of the planner ask of it, and what they answer as the device.
namespace godwit::protocols::testing_support {

inline constexpr request_id first_id{1}, second_id{2}, third_id{3};

/// Eight requests at a time in steps of 64 tokens, unless a test says otherwise, and enough of all else.
inline planner_settings settings_for(std::uint32_t blocks, std::uint32_t running = 8, std::uint32_t step_tokens = 64) {
  planner_settings settings;
  settings.blocks = blocks;
  settings.context_length = 1000;
  settings.step_tokens_max = step_tokens;
  settings.running_max = running;
  settings.waiting_max = 100;
  return settings;
}

/// A prompt that counts up from a token.
inline std::vector<token_id> counting_from(token_id from, std::size_t tokens) {
  std::vector<token_id> prompt(tokens);
  std::iota(prompt.begin(), prompt.end(), from);
  return prompt;
}

/// Its prompt begins like no other's: with a thousand times its number.
inline generate_request asks_for(std::uint64_t id, std::size_t prompt, std::uint32_t max_tokens = 4,
                                 std::int32_t priority = 0, std::int64_t arrival_ns = 0) {
  generate_request request;
  request.request = request_id{id};
  request.epoch = epoch{1};
  request.prompt = counting_from(static_cast<token_id>(id * 1000), prompt);
  request.stop.max_tokens = max_tokens;
  request.priority = priority;
  request.arrival_ns = arrival_ns;
  return request;
}

inline void admit(planner& p, generate_request request) { ASSERT_TRUE(p.admit(std::move(request)).accepted()); }

/// A step in which every request that samples draws `token`. Where log-probabilities are asked for, the one of a token
/// tells its place in the answer; the prompt is scored.
inline step_output drawn_by(const step_input& step, token_id token = 7) {
  step_output output;
  output.step = step.step;
  for (const auto& slice : step.slices) {
    if (slice.samples) output.tokens.emplace_back(token);
    if (slice.samples && slice.sampling.logprobs >= 0)
      output.tokens.back().logprob = -static_cast<float>(slice.sample_index);
    if (!slice.scored.empty()) output.scores.emplace_back(slice.scored.begin(), slice.scored.end());
  }
  return output;
}

/// Whom a step is for, in order; nobody where there is none.
inline std::vector<std::uint64_t> those_in(const std::optional<step_input>& step) {
  std::vector<std::uint64_t> ids;
  if (step)
    for (const auto& slice : step->slices) ids.push_back(slice.request.value());
  return ids;
}

/// Plans a step, which there must be, and ends it.
inline step_effects step(planner& p, token_id token = 7) { return p.complete(drawn_by(p.plan().value(), token)); }

/// Ends a step; the books agree afterwards.
inline step_effects ends(planner& p, const step_input& step) {
  auto effects = p.complete(drawn_by(step));
  p.check();
  return effects;
}

/// Plans a step and ends it, if there is one; whom it was for.
inline std::vector<std::uint64_t> served(planner& p) {
  const auto planned = p.plan();
  if (planned) (void)ends(p, *planned);
  return those_in(planned);
}

} // namespace godwit::protocols::testing_support
