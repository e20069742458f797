#pragma once

#include <godwit/protocols/batching/draft_depth.hpp>
#include <godwit/protocols/batching/queue_order.hpp>
#include <godwit/protocols/kv/sequence_blocks.hpp>
#include <godwit/protocols/messages/request.hpp>
#include <godwit/protocols/messages/status.hpp>
#include <godwit/protocols/messages/tokens.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// One request inside a planner.
struct planned_request {
  // What each step reads or changes, side by side:
  request_id id;
  std::vector<token_id> tokens; ///< prompt, then answer
  sequence_blocks blocks;
  protocols::epoch epoch;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t computed = 0;                   ///< leading tokens whose KV is in `blocks`
  std::uint32_t ahead = 0;                      ///< tokens after these that steps in flight compute, without drafts
  std::uint32_t cached_tokens = 0;              ///< of the prompt, found when it first ran
  request_state state = request_state::waiting; ///< while parked: what it was
  std::uint8_t execution_level = 0;
  std::uint8_t drafts_wait = 0;   ///< steps until it drafts again
  std::uint8_t drafts_failed = 0; ///< times in a row that nothing of a draft was right
  std::uint8_t drafts_next = 4;   ///< tokens to draft at most: more as they are right, fewer as they are not
  bool started = false;           ///< has run before
  bool mixed_kv = false;          ///< as in moved_request: nobody else takes up its KV
  std::uint8_t in_flight = 0;     ///< steps that it is part of: more than one only with chunks of its prompt
  bool dropped = false;           ///< cancelled or superseded while in flight: leaves as the step completes
  bool parked = false;            ///< out of queue and batch
  bool parks = false;             ///< in flight, and is parked as the step completes
  bool predicts = false;          ///< has a prediction
  bool scores_prompt = false;     ///< log-probabilities of the prompt are wanted, and its home does not have them yet
  stop_params stop;
  sampling_params sampling;
  draft_record guesses; ///< of the draft model, for it, here

  // What few steps do:
  std::uint64_t serial = 0;
  std::int32_t priority = 0;
  std::int64_t arrival_ns = 0;
  std::uint32_t expected_tokens = 0; ///< of the answer
  std::int64_t ttft_ns = 0;          ///< objective
  queue_place place;                 ///< while it waits
  std::uint64_t cache_salt = 0;
  adapter_ref adapter;
  request_id sibling; ///< whose prompt is this one's
  std::uint32_t preemptions = 0;
  std::uint64_t load = 0;           ///< number of the load by which KV comes from a store meanwhile; 0: none does
  std::uint64_t swap = 0;           ///< number of what is swapped out of it, or goes out; 0: nothing
  std::uint32_t swap_from = 0;      ///< token where that begins
  std::uint32_t swapped = 0;        ///< and where it ends; whole blocks. 0: nothing
  std::uint32_t stored = 0;         ///< leading tokens whose KV a store is thought to have; whole chunks
  std::uint32_t drawn_from = 0;     ///< index in the answer of drawn[0]
  std::vector<sampled_token> drawn; ///< only with log-probabilities: what `tokens` does not say of the answer's end
  std::vector<token_id> prediction; ///< of the answer
  std::uint32_t prediction_accepted = 0;
  std::uint32_t prediction_rejected = 0;
  std::vector<sampled_token> prompt_scores; ///< of prompt[1] and on, as far as it is computed

  planned_request(std::uint64_t number, generate_request request)
      : id(request.request), tokens(std::move(request.prompt)), blocks(request.cache_salt), epoch(request.epoch),
        prompt_tokens(static_cast<std::uint32_t>(tokens.size())), execution_level(request.execution_level),
        predicts(!request.prediction.empty()),
        scores_prompt(request.sampling.prompt_logprobs >= 0 && request.answer.empty()), stop(std::move(request.stop)),
        sampling(std::move(request.sampling)), serial(number), priority(request.priority),
        arrival_ns(request.arrival_ns), expected_tokens(request.expected_tokens), ttft_ns(request.ttft_ns),
        cache_salt(request.cache_salt), adapter(std::move(request.adapter)), sibling(request.sibling),
        drawn_from(static_cast<std::uint32_t>(request.answer.size())), prediction(std::move(request.prediction)) {
    tokens.insert(tokens.end(), request.answer.begin(), request.answer.end());
  }

  [[nodiscard]] std::uint32_t total() const noexcept { return static_cast<std::uint32_t>(tokens.size()); }
  [[nodiscard]] std::uint32_t answer_tokens() const noexcept { return total() - prompt_tokens; }
  [[nodiscard]] std::uint32_t remaining() const noexcept { return total() - computed; }
  [[nodiscard]] std::uint32_t planned() const noexcept { return computed + ahead; }
  /// May be part of a further step now. While a step has a chunk of its prompt, the next chunk may follow behind it;
  /// scores of a prompt are put together chunk by chunk.
  [[nodiscard]] bool may_be_planned() const noexcept {
    return in_flight == 0 || (planned() < total() && !parks && !dropped && !scores_missing());
  }
  [[nodiscard]] bool keeps_logprobs() const noexcept { return sampling.logprobs >= 0; }
  /// Of a token of the prompt the one before has to be computed, cached or not.
  [[nodiscard]] bool scores_missing() const noexcept {
    return scores_prompt && prompt_scores.size() + 1 < prompt_tokens;
  }
  /// Parked, in the batch, while its KV is loaded from a store.
  [[nodiscard]] bool loads() const noexcept { return load != 0; }
  [[nodiscard]] bool decodes() const noexcept { return remaining() == 1 && computed > 0; }
  [[nodiscard]] std::span<const token_id> computed_tokens() const noexcept { return std::span{tokens}.first(computed); }
};

} // namespace godwit::protocols
