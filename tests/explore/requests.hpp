#pragma once

#include <godwit/protocols/messages/request.hpp>
#include <godwit/protocols/messages/tokens.hpp>

#include <cstdint>
#include <vector>

/// Search for faults of the actors: whole clusters on virtual time, to which bad things happen (docs/explore.md).
namespace godwit::explore {

/// Requests whose answers are known: prompts of 1 to 150 tokens of which many begin alike, greedy and seeded, some with
/// penalties, biases, a schema (for half of these one that binds behind what the answer thinks), log-probabilities of
/// answer or prompt, a salt, one of three adapters; answers of up to 100 tokens, some of which end by themselves or
/// with a stop token. Of each prompt there are two samples: kinds `prompts` apart differ in nothing but the seed.
inline constexpr std::uint32_t prompts = 64;
inline constexpr std::uint32_t request_kinds = 2 * prompts;
inline constexpr std::uint32_t vocabulary = 1000;
inline constexpr std::uint32_t context_length = 256;

[[nodiscard]] protocols::generate_request request_of(std::uint32_t kind);

/// What one instance says that nothing disturbs.
struct calm_answer {
  std::vector<protocols::sampled_token> tokens; ///< with their log-probabilities, where those are asked for
  std::vector<protocols::sampled_token> prompt_scores;
  protocols::finish_reason finish = protocols::finish_reason::none;
  std::uint32_t prompt_tokens = 0;
};
/// By kind. Computed once, by the same actors.
[[nodiscard]] const std::vector<calm_answer>& calm_answers();
/// What a client expects of some kinds, right in many places; empty: nothing.
[[nodiscard]] std::vector<protocols::token_id> prediction_of(std::uint32_t kind);

} // namespace godwit::explore
