#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/sampling.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace godwit::protocols {

/// One request's share of a step: a chunk of its prompt, or the last token while it decodes, with drafts of those that
/// may follow.
struct step_slice {
  request_id request;
  std::uint32_t first_position = 0; ///< position of tokens[0]; the KV of all positions below is in `blocks` already
  std::vector<token_id> tokens;     ///< at least one
  std::uint64_t adapter = 0;        ///< adapter_ref::id; the device has it while the step runs. 0: none
  std::vector<block_id> blocks;     ///< block table; covers positions [0, first_position + tokens.size())
  bool samples = false;             ///< draw the token that follows tokens.back()
  /// Of `tokens`, the last ones, which are guesses (speculation.hpp). Only with `samples`: a token is drawn in front of
  /// each of them, too, as if those before it were right.
  std::uint32_t drafted = 0;
  /// Guesses that the replica's draft model is to add behind `tokens`, which has none then; `blocks` covers them, too.
  /// No device sees this: it gets a slice with so many `drafted` (drafting.hpp).
  std::uint32_t drafts_wanted = 0;
  std::uint32_t sample_index = 0;  ///< index in the answer of the first token drawn; the counter of the random numbers
  sampling_params sampling;        ///< read when `samples`
  std::vector<token_id> forbidden; ///< never drawn in this step (min_tokens)
  std::vector<token_id> prompt;    ///< only when sampling.penalised(): the prompt
  std::vector<token_id> generated; ///< only when sampling.penalised() or constrained(): the answer so far
  std::vector<token_id> scored;    ///< scored[i] follows tokens[i], and its log-probability is wanted; empty: none
  std::int32_t scores_top = 0;     ///< how many of the most probable ones besides, when `scored`

  step_slice() = default;
  /// How many tokens are drawn.
  [[nodiscard]] std::uint32_t draws() const noexcept { return samples ? 1 + drafted : 0; }
  /// What draw number `i` goes by, without KV: as if the drafts before it were part of the answer.
  [[nodiscard]] step_slice drawn_at(std::uint32_t i) const {
    step_slice alone;
    alone.request = request;
    alone.samples = true;
    alone.sample_index = sample_index + i;
    alone.sampling = sampling;
    alone.forbidden = forbidden;
    alone.prompt = prompt;
    alone.generated = generated;
    if (sampling.penalised() || sampling.constrained()) {
      const auto first = tokens.end() - static_cast<std::ptrdiff_t>(drafted);
      alone.generated.insert(alone.generated.end(), first, first + static_cast<std::ptrdiff_t>(i));
    }
    return alone;
  }
  friend bool operator==(const step_slice&, const step_slice&) = default;
  auto fields() {
    return std::tie(request, first_position, tokens, adapter, blocks, samples, drafted, drafts_wanted, sample_index,
                    sampling, forbidden, prompt, generated, scored, scores_top);
  }
};

/// A whole block copied before the step runs (copy-on-write).
struct block_copy {
  block_id from;
  block_id to;
  block_copy() = default;
  block_copy(block_id source, block_id destination) : from(source), to(destination) {}
  friend bool operator==(const block_copy&, const block_copy&) = default;
  auto fields() { return std::tie(from, to); }
};

/// What an instance runs in one step: prefill chunks and decodes of many requests together (Orca's selective batching:
/// linear layers over all tokens at once, attention per request).
struct step_input {
  std::uint64_t step = 0; ///< counts up; echoed in the output
  std::vector<block_copy> copies;
  std::vector<step_slice> slices;

  step_input() = default;
  [[nodiscard]] std::uint32_t tokens() const noexcept {
    std::uint32_t sum = 0;
    for (const auto& slice : slices) sum += static_cast<std::uint32_t>(slice.tokens.size());
    return sum;
  }
  friend bool operator==(const step_input&, const step_input&) = default;
  auto fields() { return std::tie(step, copies, slices); }
};

/// The tokens drawn, in the order of the slices with `samples`, of each as many as it `draws`.
struct step_output {
  std::uint64_t step = 0;
  std::int64_t duration_ns = 0; ///< on the device
  std::vector<sampled_token> tokens;
  std::vector<std::vector<sampled_token>> scores; ///< one list for each slice with `scored`, in their order
  /// Why there is no token, for each `no_token` in their order, as half a line; empty: the device does not say.
  std::vector<std::string> undrawn;
  /// What a draft model guessed: of each slice as many as it wanted, in their order.
  std::vector<token_id> drafts;
  std::int64_t drafting_ns = 0; ///< of `duration_ns`, what that took

  step_output() = default;
  friend bool operator==(const step_output&, const step_output&) = default;
  auto fields() { return std::tie(step, duration_ns, tokens, scores, undrawn, drafts, drafting_ns); }
};

} // namespace godwit::protocols
