#pragma once

#include <godwit/protocols/messages/adapter.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/sampling.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// Why an instance does not take a request.
enum class refusal : std::uint8_t {
  none,
  not_ready,  ///< the model is being loaded, or the instance drains
  queue_full, ///< the bounded waiting queue is full: try elsewhere or later
  too_long,   ///< prompt (and answer so far) leave no room in the context length
  never_fits, ///< more KV blocks than the whole pool has
  duplicate,  ///< the same request is here already with this epoch or a later one
  invalid,    ///< empty prompt, a token outside the vocabulary, max_tokens of 0
  no_adapter  ///< the one that it names cannot be had here: `why` says it
};
[[nodiscard]] constexpr std::string_view to_string(refusal reason) noexcept {
  switch (reason) {
  case refusal::none:
    return "none";
  case refusal::not_ready:
    return "not_ready";
  case refusal::queue_full:
    return "queue_full";
  case refusal::too_long:
    return "too_long";
  case refusal::never_fits:
    return "never_fits";
  case refusal::duplicate:
    return "duplicate";
  case refusal::invalid:
    return "invalid";
  case refusal::no_adapter:
    return "no_adapter";
  }
  return "unknown";
}

/// What a home sends to a llumlet: run this request, from its prompt or, after a change of owner, from prompt and
/// answer so far.
struct generate_request {
  request_id request;
  protocols::epoch epoch;
  std::vector<token_id> prompt; ///< at least one token
  std::vector<token_id> answer; ///< tokens the home has accepted already; the next token has index answer.size()
  sampling_params sampling;
  stop_params stop;                 ///< max_tokens and min_tokens count from the beginning of the answer
  std::int32_t priority = 0;        ///< lower runs first
  std::int64_t arrival_ns = 0;      ///< at the home, on the cluster's time; orders requests of one priority
  std::uint64_t cache_salt = 0;     ///< KV is shared among requests of one salt only
  adapter_ref adapter;              ///< of the model, with which all of it is computed; none: the model as it is
  std::uint8_t execution_level = 0; ///< index of its execution priority (policy/headroom.hpp); 0: normal
  /// Another sample of the same prompt: shares the blocks of the prompt's KV with that request where both are on one
  /// instance. 0: none.
  request_id sibling;
  /// What the answer will be, as far as its client knows: drafts for speculation, nothing else.
  std::vector<token_id> prediction;
  bool taken_before = false; ///< by an instance that was lost: no full queue turns it away any more
  /// Of the whole answer, as its home expects it (lengths/length_predictor.hpp); 0: it has no idea.
  std::uint32_t expected_tokens = 0;
  std::int64_t ttft_ns = 0; ///< from its arrival its first token is wanted within; 0: its client does not say

  generate_request() = default;
  generate_request(request_id id, protocols::epoch owner_epoch, std::vector<token_id> prompt_tokens,
                   std::vector<token_id> answer_so_far, sampling_params how, stop_params until,
                   std::int32_t request_priority = 0, std::int64_t arrived_ns = 0, std::uint64_t salt = 0)
      : request(id), epoch(owner_epoch), prompt(std::move(prompt_tokens)), answer(std::move(answer_so_far)),
        sampling(how), stop(std::move(until)), priority(request_priority), arrival_ns(arrived_ns), cache_salt(salt) {}
  friend bool operator==(const generate_request&, const generate_request&) = default;
  auto fields() {
    return std::tie(request, epoch, prompt, answer, sampling, stop, priority, arrival_ns, cache_salt, adapter,
                    execution_level, sibling, prediction, taken_before, expected_tokens, ttft_ns);
  }
};

/// The instance's reply to a generate_request: refusal::none when it was taken. `limit` is the figure that it broke
/// (context length in tokens for too_long, blocks of the pool for never_fits, places in the queue for queue_full).
struct admission {
  request_id request;
  protocols::epoch epoch;
  refusal reason = refusal::none;
  std::uint64_t limit = 0;
  std::string why; ///< of no_adapter, in one line

  admission() = default;
  admission(request_id id, protocols::epoch owner_epoch, refusal cause, std::uint64_t broken_limit)
      : request(id), epoch(owner_epoch), reason(cause), limit(broken_limit) {}
  [[nodiscard]] bool accepted() const noexcept { return reason == refusal::none; }
  friend bool operator==(const admission&, const admission&) = default;
  auto fields() { return std::tie(request, epoch, reason, limit, why); }
};

/// The client went away, or the home has the whole answer (a stop string). A later epoch than the named one is left
/// alone.
struct cancel_request {
  request_id request;
  protocols::epoch epoch;

  cancel_request() = default;
  cancel_request(request_id id, protocols::epoch owner_epoch) : request(id), epoch(owner_epoch) {}
  friend bool operator==(const cancel_request&, const cancel_request&) = default;
  auto fields() { return std::tie(request, epoch); }
};

} // namespace godwit::protocols
