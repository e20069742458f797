#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace godwit::protocols {

/// Added to the logit of one token, before penalties and temperature.
struct token_bias {
  token_id id = 0;
  float bias = 0.0F; ///< [-100, 100]
  token_bias() = default;
  token_bias(token_id token, float value) : id(token), bias(value) {}
  friend bool operator==(const token_bias&, const token_bias&) = default;
  auto fields() { return std::tie(id, bias); }
};

/// How an answer may begin, where what a model thinks first (`<think>...</think>`) is told apart from what it answers.
enum class reasoning_start : std::uint8_t {
  off,     ///< all is answer
  answer,  ///< it may begin with `<think>`
  thinking ///< the prompt ended with `<think>`: it begins within
};

/// How the next token is drawn from the logits.
///
/// Randomness is a pure function of (seed, index of the token in the answer), so a request gives the same tokens alone,
/// in any batch, on any instance and after any number of moves.
struct sampling_params {
  float temperature = 1.0F;        ///< 0: greedy
  float top_p = 1.0F;              ///< (0, 1]
  std::int32_t top_k = 0;          ///< 0: off
  float min_p = 0.0F;              ///< [0, 1]; keeps tokens with p >= min_p * p_max; 0: off
  float presence_penalty = 0.0F;   ///< [-2, 2], over generated tokens
  float frequency_penalty = 0.0F;  ///< [-2, 2], over generated tokens
  float repetition_penalty = 1.0F; ///< > 0, over prompt and generated tokens; 1: off
  std::uint64_t seed = 0;          ///< the home draws one when the client gives none
  std::int32_t logprobs = -1;      ///< -1: none; n: the chosen token's and the n most probable ones
  /// The same of the prompt's tokens, from the second on; they come with the answer's first token.
  std::int32_t prompt_logprobs = -1;
  std::vector<token_bias> logit_bias;
  /// Not empty: a JSON Schema (2020-12, the subset of protocols/grammar) that the answer's text has to fulfil; `{}` is
  /// any JSON value. A function of the answer so far, so it moves with the request.
  std::string json_schema;
  /// What the schema leaves free: it binds what follows on `</think>`, where the answer thinks, and else all of it.
  reasoning_start reasoning = reasoning_start::off;

  sampling_params() = default;
  [[nodiscard]] bool greedy() const noexcept { return temperature == 0.0F; }
  /// True where drawing needs the tokens so far, not only the logits.
  [[nodiscard]] bool penalised() const noexcept {
    return presence_penalty != 0.0F || frequency_penalty != 0.0F || repetition_penalty != 1.0F;
  }
  /// True where the text so far says which tokens may follow.
  [[nodiscard]] bool constrained() const noexcept { return !json_schema.empty(); }
  friend bool operator==(const sampling_params&, const sampling_params&) = default;
  auto fields() {
    return std::tie(temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty, seed,
                    logprobs, prompt_logprobs, logit_bias, json_schema, reasoning);
  }
};

/// When an answer ends, as far as the instance decides it. Stop strings are the home's business, which holds the text.
struct stop_params {
  std::uint32_t max_tokens = 16;        ///< >= 1; answers end with finish reason `length` here
  std::uint32_t min_tokens = 0;         ///< end-of-sequence and stop tokens are not drawn before
  bool ignore_eos = false;              ///< go on over end-of-sequence tokens
  std::vector<token_id> stop_token_ids; ///< besides the model's own end-of-sequence tokens

  stop_params() = default;
  friend bool operator==(const stop_params&, const stop_params&) = default;
  auto fields() { return std::tie(max_tokens, min_tokens, ignore_eos, stop_token_ids); }
};

struct token_logprob {
  token_id id = 0;
  float logprob = 0.0F;
  token_logprob() = default;
  token_logprob(token_id token, float value) : id(token), logprob(value) {}
  friend bool operator==(const token_logprob&, const token_logprob&) = default;
  auto fields() { return std::tie(id, logprob); }
};

/// Stands for a token where none could be drawn (a broken model's NaN, everything forbidden). Ends its request with an
/// error, and nobody else's.
inline constexpr token_id no_token = -1;

/// One token drawn by an instance.
struct sampled_token {
  token_id id = 0;
  float logprob = 0.0F;           ///< natural logarithm, of the unmodified distribution; 0 when not asked for
  std::vector<token_logprob> top; ///< most probable first; empty when not asked for

  sampled_token() = default;
  explicit sampled_token(token_id token) : id(token) {}
  friend bool operator==(const sampled_token&, const sampled_token&) = default;
  auto fields() { return std::tie(id, logprob, top); }
};

} // namespace godwit::protocols
