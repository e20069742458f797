#include "model/tokenizer_pipeline.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <array>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t steps_max = 16;

struct known_pattern {
  std::string_view text;
  split_pattern kind;
};

constexpr std::array known_patterns{
    known_pattern{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", split_pattern::gpt2},
    known_pattern{R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", split_pattern::gpt2},
    known_pattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        split_pattern::llama3},
    known_pattern{
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        split_pattern::qwen2}};

/// The steps of a component that may be one step, a Sequence of steps, or nothing.
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
  if (parts->size() > steps_max) whole->fail(list, "has more than " + std::to_string(steps_max) + " steps");
  for (const auto& part : *parts)
    steps.emplace_back(part, in.file(), std::string(component) + "." + std::string(list) + ".");
  return steps;
}

[[noreturn]] void refuse(const json_reader& step, const std::string& supported) {
  step.fail("type", in_quotes(step.required_text("type")) + " is not supported; supported: " + supported);
}

void read_split(const json_reader& step, tokenizer_pipeline& out) {
  const auto pattern = step.required_object("pattern");
  const auto text = pattern.text("Regex");
  const auto* const known = std::find_if(known_patterns.begin(), known_patterns.end(),
                                         [&](const auto& entry) { return text && entry.text == *text; });
  if (known == known_patterns.end())
    step.fail("pattern",
              in_quotes(text ? *text : "") + " is not supported; supported: the patterns of GPT-2, Llama 3 and Qwen2");
  const auto behavior = step.required_text("behavior");
  const bool inverted = step.flag("invert", false);
  // The patterns match all of a text, so to isolate the matches and to remove what lies between is the same.
  if (!(behavior == "Isolated" && !inverted) && !(behavior == "Removed" && inverted))
    step.fail("behavior", in_quotes(behavior) + " is not supported; supported: \"Isolated\"");
  out.splits.push_back(known->kind);
}

void read_pre_tokenizer(const json_reader& in, tokenizer_pipeline& out) {
  const auto steps = steps_of(in, "pre_tokenizer", "pretokenizers");
  bool byte_level = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    const auto type = step.required_text("type");
    if (byte_level) step.fail("type", "a step after ByteLevel is not supported");
    if (type == "ByteLevel") {
      byte_level = true;
      out.prefix_space = step.flag("add_prefix_space", true);
      if (out.prefix_space && i > 0)
        step.fail("add_prefix_space", "true is supported only where ByteLevel is the first step");
      if (step.flag("use_regex", true)) out.splits.push_back(split_pattern::gpt2);
    } else if (type == "Split") {
      read_split(step, out);
    } else if (type == "Digits") {
      if (!step.flag("individual_digits", false))
        step.fail("individual_digits", "false is not supported; supported: true");
      out.splits.push_back(split_pattern::digits);
    } else {
      refuse(step, "ByteLevel, Split, Digits");
    }
  }
  if (!byte_level)
    in.fail("pre_tokenizer", "has no ByteLevel step; only byte-level BPE is supported (sentencepiece kinds are not)");
}

void add_special(const json_reader& step, std::string_view name, std::vector<token_id>& out) {
  const auto entry = step.required_object("special_tokens").required_object(name);
  const auto* ids = entry.array("ids");
  if (!ids) entry.fail("ids", "is missing");
  for (const auto& value : *ids) {
    const auto id = integer_of(value);
    if (!id || *id < 0 || *id > 0x7FFFFFFF) entry.fail("ids", "must hold token ids");
    out.push_back(static_cast<token_id>(*id));
  }
  if (out.size() > steps_max) step.fail("single", "adds more than " + std::to_string(steps_max) + " tokens");
}

void read_template(const json_reader& step, tokenizer_pipeline& out) {
  const auto* single = step.array("single");
  if (!single || single->size() > steps_max) step.fail("single", "must be a short array");
  bool text_seen = false;
  for (const auto& value : *single) {
    const json_reader part(value, step.file(), "post_processor.single.");
    if (const auto special = part.object("SpecialToken")) {
      add_special(step, special->required_text("id"), text_seen ? out.suffix : out.prefix);
    } else {
      if (text_seen) step.fail("single", "names the text twice");
      (void)part.required_object("Sequence");
      text_seen = true;
    }
  }
  if (!text_seen) step.fail("single", "does not name the text");
}

} // namespace

tokenizer_pipeline read_pipeline(const json_reader& in) {
  tokenizer_pipeline out;
  for (const auto& step : steps_of(in, "normalizer", "normalizers")) {
    if (step.required_text("type") != "NFC") refuse(step, "NFC");
    out.nfc = true;
  }
  read_pre_tokenizer(in, out);
  for (const auto& step : steps_of(in, "post_processor", "processors")) {
    const auto type = step.required_text("type");
    if (type == "TemplateProcessing")
      read_template(step, out);
    else if (type != "ByteLevel")
      refuse(step, "TemplateProcessing, ByteLevel");
  }
  const auto decoders = steps_of(in, "decoder", "decoders");
  if (decoders.size() != 1 || decoders.front().required_text("type") != "ByteLevel")
    in.fail("decoder", "must be ByteLevel; only byte-level BPE is supported");
  return out;
}

} // namespace godwit::gpu::model
