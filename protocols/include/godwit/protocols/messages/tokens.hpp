#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/sampling.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace godwit::protocols {

/// How an answer ended.
enum class finish_reason : std::uint8_t {
  none,      ///< it goes on
  stop,      ///< an end-of-sequence or stop token (the last one of the update), or, at the home, a stop string
  length,    ///< max_tokens or the context length
  cancelled, ///< the client went away
  error      ///< see token_update::error
};
[[nodiscard]] constexpr std::string_view to_string(finish_reason reason) noexcept {
  switch (reason) {
  case finish_reason::none:
    return "none";
  case finish_reason::stop:
    return "stop";
  case finish_reason::length:
    return "length";
  case finish_reason::cancelled:
    return "cancelled";
  case finish_reason::error:
    return "error";
  }
  return "unknown";
}

/// Tokens of one request, from the instance to the home, which takes the next index of the current epoch and drops all
/// else. With finish `stop` the last token is the end-of-sequence or stop token: it counts, its text is not part of the
/// answer.
struct token_update {
  request_id request;
  protocols::epoch epoch;
  std::uint32_t first_index = 0;     ///< index in the answer of tokens[0]
  std::vector<sampled_token> tokens; ///< may be empty when `finish` is set
  finish_reason finish = finish_reason::none;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0; ///< of the prompt, whose KV was there already
  std::string error;               ///< one line, when finish is `error`
  /// With the token of index 0, where sampling.prompt_logprobs asks for it: prompt[1], prompt[2], ...
  std::vector<sampled_token> prompt_scores;
  /// With the token of index 0: how long the request waited in the instance's queue until it joined the batch.
  std::int64_t queue_ns = 0;
  /// Of the request's prediction, drafted since this instance, or one that it moved from, took the request: tokens that
  /// the model drew, too, and others.
  std::uint32_t prediction_accepted = 0;
  std::uint32_t prediction_rejected = 0;

  token_update() = default;
  token_update(request_id id, protocols::epoch owner_epoch, std::uint32_t index, std::vector<sampled_token> sampled,
               finish_reason reason = finish_reason::none, std::uint32_t prompt_count = 0,
               std::uint32_t cached_count = 0, std::string what = {})
      : request(id), epoch(owner_epoch), first_index(index), tokens(std::move(sampled)), finish(reason),
        prompt_tokens(prompt_count), cached_tokens(cached_count), error(std::move(what)) {}
  [[nodiscard]] bool finished() const noexcept { return finish != finish_reason::none; }
  friend bool operator==(const token_update&, const token_update&) = default;
  auto fields() {
    return std::tie(request, epoch, first_index, tokens, finish, prompt_tokens, cached_tokens, error, prompt_scores,
                    queue_ns, prediction_accepted, prediction_rejected);
  }
};

/// What one step of an instance gave to the requests of one home.
struct token_updates {
  instance_id instance;
  std::vector<token_update> updates;

  token_updates() = default;
  token_updates(instance_id from, std::vector<token_update> list) : instance(from), updates(std::move(list)) {}
  friend bool operator==(const token_updates&, const token_updates&) = default;
  auto fields() { return std::tie(instance, updates); }
};

} // namespace godwit::protocols
