#include "model/tokenizer_pipeline.hpp"

#include <boost/json/array.hpp>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t literal_bytes_max = 64;

split_step read_split(const json_reader& step) {
  split_step out;
  const auto behavior = step.required_text("behavior");
  const bool inverted = step.flag("invert", false);
  if (auto literal = literal_of(step)) {
    if (inverted) step.fail("invert", "true is not supported for a String");
    out.literal = std::move(*literal);
    if (behavior == "Removed")
      out.behavior = delimiter::removed;
    else if (behavior == "Isolated")
      out.behavior = delimiter::isolated;
    else if (behavior == "MergedWithPrevious")
      out.behavior = delimiter::with_previous;
    else if (behavior == "MergedWithNext")
      out.behavior = delimiter::with_next;
    else if (behavior == "Contiguous")
      out.behavior = delimiter::contiguous;
    else
      step.fail("behavior", in_quotes(behavior) + " is not known");
    return out;
  }
  const auto regex = step.required_object("pattern").text("Regex").value_or("");
  const auto known = known_pattern(regex);
  if (!known)
    step.fail("pattern", in_quotes(regex) +
                             " is not supported; supported: a String, and the patterns of GPT-2, Llama " +
                             "3, Qwen2, GPT-4o (o200k) and Mistral's Tekken");
  // The patterns match all of a text, so to isolate the matches and to remove what lies between is the same.
  if (!(behavior == "Isolated" && !inverted) && !(behavior == "Removed" && inverted))
    step.fail("behavior", in_quotes(behavior) + " is not supported; supported: \"Isolated\"");
  out.pattern = *known;
  return out;
}

metaspace_step read_metaspace(const json_reader& step) {
  metaspace_step out;
  if (const auto text = step.text("replacement")) out.replacement = *text;
  if (out.replacement.empty() || out.replacement.size() > literal_bytes_max)
    step.fail("replacement", "must be one character");
  if (!step.flag("add_prefix_space", true)) out.scheme = metaspace_step::prepend::never;
  if (const auto scheme = step.text("prepend_scheme")) {
    if (*scheme == "first")
      out.scheme = metaspace_step::prepend::first;
    else if (*scheme == "always")
      out.scheme = metaspace_step::prepend::always;
    else if (*scheme == "never")
      out.scheme = metaspace_step::prepend::never;
    else
      step.fail("prepend_scheme", in_quotes(*scheme) + " is not known; known: first, always, never");
  }
  out.split = step.flag("split", true);
  return out;
}

} // namespace

std::vector<json_reader> steps_of(const json_reader& in, std::string_view component, std::string_view list) {
  std::vector<json_reader> steps;
  const auto whole = in.object(component);
  if (!whole) return steps;
  if (whole->required_text("type") != "Sequence") {
    steps.push_back(*whole);
    return steps;
  }
  const auto* parts = whole->array(list);
  if (!parts) whole->fail(list, "is missing");
  if (parts->size() > pipeline_steps_max)
    whole->fail(list, "has more than " + std::to_string(pipeline_steps_max) + " steps");
  for (const auto& part : *parts)
    steps.emplace_back(part, in.file(), std::string(component) + "." + std::string(list) + ".");
  return steps;
}

void refuse_type(const json_reader& step, const std::string& supported) {
  step.fail("type", in_quotes(step.required_text("type")) + " is not supported; supported: " + supported);
}

std::optional<std::string> literal_of(const json_reader& step) {
  const auto pattern = step.required_object("pattern");
  auto text = pattern.text("String");
  if (!text) {
    text = pattern.text("Regex");
    if (!text || text->find_first_of("\\^$.|?*+()[]{}") != std::string_view::npos) return std::nullopt;
  }
  if (text->empty() || text->size() > literal_bytes_max)
    step.fail("pattern", "must have from 1 to " + std::to_string(literal_bytes_max) + " bytes");
  return std::string(*text);
}

void read_pre_tokenizer(const json_reader& in, tokenizer_pipeline& out) {
  const auto steps = steps_of(in, "pre_tokenizer", "pretokenizers");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    const auto type = step.required_text("type");
    if (out.byte_level) step.fail("type", "a step after ByteLevel is not supported");
    if (type == "ByteLevel") {
      if (out.metaspace) step.fail("type", "ByteLevel after Metaspace is not supported");
      out.byte_level = true;
      out.prefix_space = step.flag("add_prefix_space", true);
      if (out.prefix_space && i > 0)
        step.fail("add_prefix_space", "true is supported only where ByteLevel is the first step");
      if (step.flag("use_regex", true)) out.splits.push_back({split_pattern::gpt2, {}, {}});
    } else if (type == "Split") {
      out.splits.push_back(read_split(step));
    } else if (type == "Digits") {
      const bool single = step.flag("individual_digits", false);
      out.splits.push_back({single ? split_pattern::digits : split_pattern::digit_runs, {}, {}});
    } else if (type == "Metaspace") {
      if (i > 0) step.fail("type", "\"Metaspace\" is supported only as the first step");
      out.metaspace = read_metaspace(step);
      if (out.metaspace->split)
        out.splits.push_back({split_pattern::gpt2, out.metaspace->replacement, delimiter::with_next});
    } else {
      refuse_type(step, "ByteLevel, Split, Digits, Metaspace");
    }
  }
}

tokenizer_pipeline read_pipeline(const json_reader& in) {
  tokenizer_pipeline out;
  out.normalizer = read_normalizer(in);
  read_pre_tokenizer(in, out);
  read_post_processor(in, out);
  out.decoding = read_decoder(in);
  if (out.byte_level && !out.decoding.byte_level)
    in.fail("decoder", "must be ByteLevel where the pre_tokenizer has a ByteLevel step");
  if (!out.byte_level && out.decoding.byte_level)
    in.fail("pre_tokenizer", "has no ByteLevel step, but the decoder is ByteLevel");
  return out;
}

} // namespace godwit::gpu::model
