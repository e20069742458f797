#include "main/speculation_options.hpp"

#include <optional>
#include <string>

namespace godwit::main {

void declare_speculation(runtime::config::registry& r, serve_settings& s) {
  using protocols::speculation_settings;
  r.add("speculation.tokens_max", s.speculation.tokens_max,
        {.doc = "Tokens that a request may draft in a step: what followed the last time that its last tokens came, in "
                "its prompt or its answer. The step checks all of them at once; answers are what they are without. "
                "Worth it for small batches and for answers that repeat their prompts, as edits, extracts and code do. "
                "0: none.",
         .unit = "tokens",
         .min = 0,
         .max = speculation_settings::tokens_limit,
         .flag = "--speculation-tokens"});
  r.add("speculation.lookup_min", s.speculation.lookup_min,
        {.doc = "Last tokens of a request that have to have come before for a draft.",
         .unit = "tokens",
         .min = 1,
         .max = speculation_settings::lookup_limit});
  r.add("speculation.lookup_max", s.speculation.lookup_max,
        {.doc = "Of several places the one counts that agrees with so many last tokens, or with most.",
         .unit = "tokens",
         .min = 1,
         .max = speculation_settings::lookup_limit});
  r.add("speculation.prediction_max", s.speculation.prediction_max,
        {.doc = "Tokens that a request may draft in a step from its own `prediction` of the answer. 0: predictions are "
                "of no use.",
         .unit = "tokens",
         .min = 0,
         .max = speculation_settings::tokens_limit});
  r.add("speculation.batch_max", s.speculation.batch_max,
        {.doc = "In a step of more requests nothing is drafted: it uses what the device can compute anyway.",
         .unit = "requests",
         .min = 1,
         .max = 65'536});
  r.relate([&s]() -> std::optional<std::string> {
    const auto& lookup = s.speculation;
    if (lookup.lookup_min <= lookup.lookup_max) return std::nullopt;
    return "speculation.lookup_min (" + std::to_string(lookup.lookup_min) + ") is more than speculation.lookup_max (" +
           std::to_string(lookup.lookup_max) + ")";
  });
}

protocols::speculation_settings make_speculation(const serve_settings& settings) {
  const auto& from = settings.speculation;
  return {from.tokens_max, from.lookup_min, from.lookup_max, from.batch_max, from.prediction_max};
}

} // namespace godwit::main
