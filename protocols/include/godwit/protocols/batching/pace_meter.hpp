#pragma once

#include <godwit/protocols/messages/pace.hpp>

#include <cstddef>
#include <cstdint>

namespace godwit::protocols {

/// What is known of a step once it has run.
struct step_sample {
  std::int64_t took_ns = 0;
  std::int64_t alone_ns = -1; ///< of that, without the time in which earlier steps were under way; below 0: all of it
  std::uint32_t prompt_tokens = 0;
  double prompt_pairs = 0;          ///< attention_pairs of these
  std::uint32_t decodes = 0;        ///< requests
  std::uint32_t decoding = 0;       ///< of these, still wanted when it had run
  std::uint32_t decoded_tokens = 0; ///< of their answers
  std::int64_t blocks_granted = 0;  ///< to prompts and to what comes by migration, since the last step
  std::uint64_t blocks_used = 0;    ///< after it
  std::int64_t places_granted = 0;
  std::uint64_t places_used = 0;
};

/// Measures an instance by the steps that it runs, so that others can say how long a prompt would take there
/// (policy/expected_latency.hpp). Mooncake's Conductor has a model that was fitted before (its section 6.1), and llm-d
/// trains one beside each scheduler for all instances alike; each of ours measures itself, whatever device it is.
///
/// A step takes what those who decode take, and for each token of a prompt so much, and so much for each earlier one
/// that it attends to. The first is a mean of the last steps without prompts; of fewer that decode, between that and a
/// step of hardly anything, in proportion. The others are least squares over the last steps with prompts (about
/// `prompts_kept`), neither below 0, each only where it is beyond chance. Where the two cannot be told apart, since
/// prompts are all of one length, or few, all is put down to the tokens. A step counts at most eight times as long as
/// usual, since machines stand still at times; what the last one has shown to be far too much is soon forgotten.
///
/// Blocks and places become free in proportion to what is in use: so much of it per second was left over the last
/// `flow_kept`, what requests grow by taken off. Before anything has been seen of that, and never less than a tenth of
/// it, all of it once a minute.
///
/// Where steps overlap, as in a pipeline, each takes as long as it takes, and adds less to those before it: what is
/// told of steps and prompts is the former, and `overlap` how many times as much that is.
///
/// O(1) for each step.
class pace_meter {
public:
  void took(const step_sample& step) noexcept;
  /// A request started, whose prefix cache had all but `missed` of its tokens.
  void started(std::uint32_t tokens, std::uint32_t missed) noexcept;
  /// For an instance where so many decode, and so much is in use.
  [[nodiscard]] step_pace pace(std::size_t decoding, std::uint64_t blocks_used,
                               std::uint64_t places_used) const noexcept;

  /// What prompts have taken so far, beyond what those who decoded beside them did.
  [[nodiscard]] std::uint64_t prompt_ns_total() const noexcept { return static_cast<std::uint64_t>(prompt_ns_); }

  /// What computing the tokens [first, upto) of a request would take, beyond what those who decode beside it do.
  /// Nothing where `knows_prompts` is false.
  [[nodiscard]] double prompt_ns(std::uint64_t first, std::uint64_t upto) const noexcept;
  [[nodiscard]] bool knows_prompts() const noexcept { return prompts_ > 0; }

  /// Share of the tokens of those that start which the prefix cache does not have.
  [[nodiscard]] double missed() const noexcept { return looked_up_ > 0 ? missed_ / looked_up_ : 1; }

  static constexpr double prompts_kept = 64;     ///< steps with prompts
  static constexpr double flow_kept_ns = 30e9;   ///< of steps
  static constexpr double usual_stay_ns = 60e9;  ///< what is in use is in use for so long, where nothing is known
  static constexpr double usual_weight_ns = 1e9; ///< as if that had been seen of a full pool for so long
  static constexpr double longest_stay_ns = 10 * usual_stay_ns;

private:
  /// What is left of it, per nanosecond and unit in use.
  struct flow {
    double left = 0;
    double used_ns = 0;
    std::uint64_t used = 0; ///< after the last step
    void took(double ns, std::int64_t granted, std::uint64_t used_now) noexcept;
    [[nodiscard]] double until_next(std::uint64_t used_now) const noexcept;
  };
  void fit(const step_sample& step) noexcept;
  void tell_apart() noexcept;
  [[nodiscard]] double without_prompts(double decoding) const noexcept;

  double base_ = 0;       ///< a step without prompts
  double base_count_ = 0; ///< requests in it
  double decode_ = 0;
  double light_ = 0;       ///< a step of hardly anything
  double alone_share_ = 1; ///< of what steps take, that they add
  double tokens2_ = 0, pairs2_ = 0, tokens_pairs_ = 0, tokens_ns_ = 0, pairs_ns_ = 0, ns2_ = 0; ///< sums of products
  double prompts_ = 0;
  double prompt_ns_ = 0;
  double token_ = 0, pair_ = 0;
  double looked_up_ = 0, missed_ = 0;
  flow blocks_, places_;
};

} // namespace godwit::protocols
