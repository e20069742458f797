#pragma once

#include <godwit/protocols/messages/adapter.hpp>
#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/sampling.hpp>
#include <godwit/protocols/messages/status.hpp>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// All that a request is besides its KV, when it moves to another instance.
///
/// * The sampler has no state: randomness is a function of `sampling.seed` and the index of the token, answer.size().
/// * Penalties are a function of prompt and answer.
/// * Stop tokens and lengths are judged from `stop` and the answer. Stop strings, the detokeniser's position, the
///   streamed text and the client's deadline live at the request's home and never move (docs/design/requests.md).
/// * The order in line goes with it: priority and arrival.
/// * Drawn tokens that the home may not have yet go with it too (`tail`): those sent under the old epoch may be lost.
struct moved_request {
  request_id request;
  protocols::epoch epoch; ///< under which it was parked
  std::vector<token_id> prompt;
  std::vector<token_id> answer;
  sampling_params sampling;
  stop_params stop;
  std::int32_t priority = 0;
  std::int64_t arrival_ns = 0;
  std::uint64_t cache_salt = 0;
  adapter_ref adapter;
  std::uint8_t execution_level = 0;
  request_state state = request_state::waiting; ///< when it was parked: waiting, running or preempted
  std::uint32_t computed = 0;                   ///< leading tokens of prompt and answer whose KV goes with it
  std::uint32_t cached_tokens = 0;              ///< of the prompt, found when it first ran
  bool started = false;                         ///< has run before
  std::uint32_t preemptions = 0;
  /// Some of its KV was computed on another number of devices than others of it: sums differ in the last bits, so no
  /// other request takes it up.
  bool mixed_kv = false;
  std::uint32_t tail_index = 0;    ///< in the answer, of tail[0]
  std::vector<sampled_token> tail; ///< the answer from `tail_index` to its end, with log-probabilities if asked for
  std::vector<sampled_token> prompt_scores; ///< of prompt[1] and on, as far as they are known and asked for
  std::vector<token_id> prediction;
  std::uint32_t prediction_accepted = 0; ///< tokens of it, see token_update
  std::uint32_t prediction_rejected = 0;
  std::uint32_t expected_tokens = 0; ///< and the next: as in generate_request
  std::int64_t ttft_ns = 0;
  std::int64_t queued_ns = 0; ///< in the queues of instances so far, without the way between them

  moved_request() = default;
  /// What every request has; the rest is filled in by name.
  moved_request(request_id id, protocols::epoch parked_under, std::vector<token_id> prompt_tokens,
                std::vector<token_id> answer_so_far, sampling_params how, stop_params until)
      : request(id), epoch(parked_under), prompt(std::move(prompt_tokens)), answer(std::move(answer_so_far)),
        sampling(how), stop(std::move(until)) {}
  friend bool operator==(const moved_request&, const moved_request&) = default;
  auto fields() {
    return std::tie(request, epoch, prompt, answer, sampling, stop, priority, arrival_ns, cache_salt, adapter,
                    execution_level, state, computed, cached_tokens, started, preemptions, mixed_kv, tail_index, tail,
                    prompt_scores, prediction, prediction_accepted, prediction_rejected, expected_tokens, ttft_ns,
                    queued_ns);
  }
};

} // namespace godwit::protocols
