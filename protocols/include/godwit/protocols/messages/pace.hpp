#pragma once

#include <tuple>

namespace godwit::protocols {

/// How fast an instance is, as its last steps were (batching/pace_meter.hpp). Nanoseconds; finite and not negative.
struct step_pace {
  double step = 0;   ///< a step of those that decode now, or of nobody, without prompts
  double light = 0;  ///< one of hardly anything, as far as any was measured; never more than that of those that decode
  double token = 0;  ///< that each token of a prompt adds to a step
  double pair = 0;   ///< that each of the tokens adds, itself included, to which such a token attends
  double decode = 0; ///< that those who decode wait for a token; 0: nobody does
  double block = 0;  ///< until the requests leave one more block of the pool
  double place = 0;  ///< until one more of them leaves the batch
  /// How many steps are under way at once, on average: in a pipeline a step takes so many times as long as it adds to
  /// those before it. At least 1.
  double overlap = 1;

  bool knows_prompts = false; ///< some have been computed, so that something can be said of others

  step_pace() = default;
  friend bool operator==(const step_pace&, const step_pace&) = default;
  auto fields() { return std::tie(step, light, token, pair, decode, block, place, overlap, knows_prompts); }
};

} // namespace godwit::protocols
