#include <godwit/protocols/batching/settings.hpp>

#include <cmath>

namespace godwit::protocols {

std::string planner_settings::validate() const {
  if (blocks == 0) return "the KV pool has no blocks";
  if (context_length < 2) return "the context length leaves no room for a prompt and an answer";
  if (steps_max == 0) return "no step may be in flight";
  if (steps_max > 64) return "no more than 64 steps may be in flight";
  if (steps_max > 1 && speculation.model_max > 0) return "a draft model drafts for one step at a time";
  if (running_max == 0) return "no request may run";
  if (waiting_max == 0) return "no request may wait";
  if (step_tokens_max < running_max)
    return "the step's budget of " + std::to_string(step_tokens_max) + " tokens is smaller than a batch of " +
           std::to_string(running_max) + " decoding requests";
  for (const auto weight : {batch.slo_weight, batch.length_weight})
    if (!std::isfinite(weight) || weight < 0) return "the weights of a batch's requests are numbers from 0 on";
  if (batch.on() && mode != batching_mode::static_batch) return "only a static batch is formed by a rule";
  return speculation.validate();
}

} // namespace godwit::protocols
