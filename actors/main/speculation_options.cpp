#include "main/speculation_options.hpp"

#include "main/parts.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

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
  r.add("speculation.draft_model", s.speculation.draft_model,
        {.doc =
             "Directory of a small model with the same tokens that drafts for the one that is served (as Qwen2.5 0.5B "
             "for 7B), in memory beside it and on the same devices. It drafts where nothing else does, and computes "
             "every prompt, too. All processes of a cluster have the same one. Empty: none.",
         .flag = "--draft-model"});
  r.add(
      "speculation.draft_max", s.speculation.model_max,
      {.doc =
           "Most tokens that the draft model drafts for a request in a step, one after the other; fewer where more are "
           "not worth their time, by how often it was right and what its passes take.",
       .unit = "tokens",
       .min = 1,
       .max = speculation_settings::tokens_limit,
       .flag = "--draft-tokens"});
  r.add("speculation.batch_max", s.speculation.batch_max,
        {.doc = "In a step of more requests nothing is looked up or predicted: it uses what the device can compute "
                "anyway. Of "
                "a draft model it is measured what that costs.",
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
  return {from.tokens_max, from.lookup_min,     from.lookup_max,
          from.batch_max,  from.prediction_max, from.draft_model.empty() ? 0 : from.model_max};
}

std::optional<start_error> open_draft(const serve_settings& settings, gpu::model::model_directory& model) {
  const auto& directory = settings.speculation.draft_model;
  if (directory.empty()) {
    if (settings.speculation.model_max == serve_settings{}.speculation.model_max) return std::nullopt;
    return start_error{
        "speculation.draft_max: nothing drafts so many tokens without a draft model; give --draft-model DIR", 2};
  }
  const auto wrong = [](const std::string& what) { return start_error{"--draft-model: " + what, 2}; };
  auto draft = open_served_model(directory);
  if (!draft) return wrong(draft.error().line);
  if (const auto why = gpu::model::refuse_draft(model, *draft); !why.empty()) return wrong(why);
  const auto context = served_context(settings, model);
  if (const auto most = draft->configuration.positions_max; most < context)
    return wrong("its context of " + std::to_string(most) + " tokens is shorter than the " + std::to_string(context) +
                 " that are served; set --model-context-max " + std::to_string(most));
  model.draft = std::make_shared<const gpu::model::model_directory>(std::move(*draft));
  return std::nullopt;
}

} // namespace godwit::main
