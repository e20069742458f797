#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <bit>
#include <cstdint>
#include <span>

/// How long answers will be, before anybody knows (UELLM's resource profiler, spec uellm.md; TetriInfer's length
/// predictor, spec disaggregation.md).
namespace godwit::protocols {

/// UELLM's buckets, and on beyond 2,048: [0, 8) is class 0, [8, 16) class 1, [16, 32) class 2, and so on.
[[nodiscard]] constexpr std::uint32_t length_class(std::uint32_t tokens) noexcept {
  return tokens < 8 ? 0 : static_cast<std::uint32_t>(std::bit_width(tokens)) - 3;
}
inline constexpr std::uint32_t length_classes = 30; ///< of all 32-bit numbers

/// What can be known of a request when it comes.
struct length_question {
  std::span<const token_id> prompt;
  std::uint64_t salt = 0;       ///< of its KV: prompts of different ones have nothing in common
  std::uint32_t max_tokens = 0; ///< its answer ends there
};

struct length_forecast {
  std::uint32_t tokens = 0;      ///< that are to be expected, the mean; 0: nobody knows
  std::uint32_t most_likely = 0; ///< the length_class
  friend bool operator==(const length_forecast&, const length_forecast&) = default;
};

/// Says how long an answer will be, and is told how long it was. Contract: called on one thread at a time; the same
/// calls in the same order give the same forecasts, or recordings of a front end are not replayed alike. Must not
/// throw: one that does is not asked any more until the front end starts anew, and the log says so. In bounded time and
/// memory; a front end waits for it with each request, so a model that thinks for long belongs elsewhere, and here what
/// it has found.
class length_predictor {
public:
  length_predictor() = default;
  length_predictor(const length_predictor&) = delete;
  length_predictor& operator=(const length_predictor&) = delete;
  virtual ~length_predictor() = default;
  [[nodiscard]] virtual length_forecast predict(const length_question& question) = 0;
  /// An answer to it was complete with so many tokens. Not called where a client left, or something failed.
  virtual void ended(const length_question& question, std::uint32_t answer_tokens) = 0;
};

} // namespace godwit::protocols
