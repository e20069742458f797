#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace godwit::protocols {

/// Speculative decoding: what a request says next is guessed from what its client predicts, from what it, or its
/// prompt, said before, or by a small draft model (drafting.hpp), and the model checks all guesses in the one step that
/// draws the next token anyway.
///
/// A step that decodes reads all weights for one token of each request; a few more tokens cost it little, as long as
/// the batch is small. Each drafted token is kept as far as the model draws the very same one, by the same random
/// numbers as without drafts, so that an answer is token by token what it is without them (for a draft that is certain
/// of its token this accepts as often as the usual rule of Leviathan et al. (2023): with probability P(x)).
struct speculation_settings {
  std::uint32_t tokens_max = 0;     ///< drafted by lookup for a request in a step; 0: none
  std::uint32_t lookup_min = 2;     ///< shortest end of a request's tokens that has to recur for a draft
  std::uint32_t lookup_max = 4;     ///< longest one that is told from shorter ones
  std::uint32_t batch_max = 16;     ///< in a step of more requests only the draft model drafts: it has work enough
  std::uint32_t prediction_max = 0; ///< drafted from a request's prediction in a step; 0: none
  std::uint32_t model_max = 0;      ///< drafted by the replica's draft model where nothing else is; 0: there is none
  static constexpr std::uint32_t lookback = 32'768; ///< tokens that are looked through, from the end
  static constexpr std::uint32_t tokens_limit = 64;
  static constexpr std::uint32_t lookup_limit = 16;

  [[nodiscard]] bool on() const noexcept { return tokens_max > 0 || prediction_max > 0 || model_max > 0; }
  /// What is wrong with them, in one line; empty when they can be used.
  [[nodiscard]] std::string validate() const;
};

/// Appends up to `count` tokens that may follow `tokens` to `drafts`: those that followed when its last tokens, at
/// least lookup_min of them, were there before. The longest such end counts, up to lookup_max, and of several places
/// the last one. A place near the end goes on in its own draft, so that what repeats itself is drafted to any length.
void draft_by_lookup(std::span<const token_id> tokens, const speculation_settings& settings, std::uint32_t count,
                     std::vector<token_id>& drafts);

/// The same out of what the answer is predicted to be. It begins where the prediction does, or anywhere in it, with
/// lookup_min of its last tokens at least; of places that agree for equally long (up to 16 tokens) the one counts that
/// is nearest to where the answer has got to; further than 8,192 tokens from there none does. Nothing is drafted behind
/// the prediction's end.
void draft_by_prediction(std::span<const token_id> answer, std::span<const token_id> prediction,
                         const speculation_settings& settings, std::uint32_t count, std::vector<token_id>& drafts);

} // namespace godwit::protocols
