#pragma once

#include <godwit/protocols/messages/ids.hpp>
#include <godwit/protocols/messages/sampling.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace godwit::protocols {

struct beam_settings {
  std::uint32_t width = 1;        ///< beams, and answers in the end
  std::uint32_t tokens_max = 16;  ///< of an answer
  std::uint32_t tokens_min = 0;   ///< before its end
  double length_penalty = 1;      ///< above 0: long answers are preferred more, below: less
  std::vector<token_id> ends;     ///< tokens that end an answer, and are a part of it
  std::uint32_t alternatives = 0; ///< of each token, that are kept with it (sampled_token::top)

  static constexpr double length_penalty_max = 10; ///< and its negative: no length to that power is too large a number

  /// What is wrong with them, in one line; empty when they can be used.
  [[nodiscard]] std::string validate() const;
};

struct beam {
  std::vector<sampled_token> tokens;
  double logprob = 0; ///< of all of them, the natural logarithm
  bool ended = false; ///< by one of the ends; the others by tokens_max
};

/// Looks for the most probable answers instead of drawing one: the `width` most probable beginnings are continued, each
/// by its most probable next tokens, and of all these the `width` most probable go on (seed 004, spec decoding.md).
///
/// Contract: while it is not `done`, find out the `wanted()` most probable next tokens of each of `running()`, from
/// the model's own distribution, and give them to `advance`, in that order. As in Hugging Face's transformers: of the
/// 2 x width best continuations those that end an answer are finished if they are among the first `width`, the first
/// `width` others go on; an answer counts by its logprob over its number of tokens to the power of length_penalty, its
/// end included. Ends early only where no beam can come to be one of the `width` best any more. Same calls, same
/// answers: of equals the earlier beam comes first, then the more probable token.
class beam_search {
public:
  /// Throws contract_violation when settings.validate() finds fault.
  explicit beam_search(beam_settings settings);
  [[nodiscard]] const beam_settings& settings() const noexcept { return settings_; }
  /// Most probable next tokens of each beam that are to be found out: twice the beams, for as many may end; and as long
  /// as none may, those that would, besides.
  [[nodiscard]] std::uint32_t wanted() const noexcept;
  /// Most probable first; at the beginning one without tokens.
  [[nodiscard]] const std::vector<beam>& running() const noexcept { return running_; }
  /// `next[i]`: any token of beam i, with its most probable ones in `top`, most probable first.
  void advance(std::span<const sampled_token> next);
  [[nodiscard]] bool done() const noexcept { return running_.empty(); }
  /// Once it is done: the best answers, best first; `width` of them, but for a model that has fewer tokens.
  [[nodiscard]] const std::vector<beam>& answers() const noexcept { return finished_; }

private:
  [[nodiscard]] double score(double logprob, std::size_t tokens) const noexcept;
  [[nodiscard]] bool ends(token_id token) const noexcept;
  [[nodiscard]] bool may_end() const noexcept; ///< at the next token
  /// Whether beams of this length and more may still be among the best.
  [[nodiscard]] bool may_improve() const noexcept;
  void finish(beam one);

  beam_settings settings_;
  std::vector<beam> running_;
  std::vector<beam> finished_; ///< best first, at most `width`
};

} // namespace godwit::protocols
