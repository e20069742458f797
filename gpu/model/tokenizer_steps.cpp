#include "model/tokenizer_pipeline.hpp"

#include "model/utf8.hpp"

#include <boost/json/array.hpp>

#include <algorithm>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t content_bytes_max = 64;

std::string short_text(const json_reader& step, std::string_view field) {
  const auto text = step.required_text(field);
  if (text.size() > content_bytes_max)
    step.fail(field, "has more than " + std::to_string(content_bytes_max) + " bytes");
  return std::string(text);
}

std::string required_literal(const json_reader& step) {
  auto literal = literal_of(step);
  if (!literal) step.fail("pattern", "is not supported; supported: a String");
  return std::move(*literal);
}

/// Replacements one after the other could make a gigabyte of a word.
void check_growth(const json_reader& in, std::string_view component, std::string_view from, std::string_view to,
                  std::size_t& growth) {
  constexpr std::size_t growth_max = 64;
  growth *= std::max<std::size_t>(1, (to.size() + from.size() - 1) / from.size());
  if (growth > growth_max)
    in.fail(component, "makes a text more than " + std::to_string(growth_max) + " times as long");
}

std::optional<unicode::form> form_of(std::string_view type) {
  if (type == "NFC") return unicode::form::nfc;
  if (type == "NFD") return unicode::form::nfd;
  if (type == "NFKC") return unicode::form::nfkc;
  if (type == "NFKD") return unicode::form::nfkd;
  return std::nullopt;
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
  if (out.size() > pipeline_steps_max)
    step.fail("single", "adds more than " + std::to_string(pipeline_steps_max) + " tokens");
}

void read_template(const json_reader& step, tokenizer_pipeline& out) {
  const auto* single = step.array("single");
  if (!single || single->size() > pipeline_steps_max) step.fail("single", "must be a short array");
  std::vector<token_id> before, after;
  bool text_seen = false;
  for (const auto& value : *single) {
    const json_reader part(value, step.file(), "post_processor.single.");
    if (const auto special = part.object("SpecialToken")) {
      add_special(step, special->required_text("id"), text_seen ? after : before);
    } else {
      if (text_seen) step.fail("single", "names the text twice");
      (void)part.required_object("Sequence");
      text_seen = true;
    }
  }
  if (!text_seen) step.fail("single", "does not name the text");
  // A later step stands around what an earlier one has made.
  out.prefix.insert(out.prefix.begin(), before.begin(), before.end());
  out.suffix.insert(out.suffix.end(), after.begin(), after.end());
}

/// Steps over tokens, then Fuse, then steps over the text.
class decoder_reader {
public:
  void read(const json_reader& step) {
    const auto type = step.required_text("type");
    if (out_.byte_level) step.fail("type", "a step after ByteLevel is not supported");
    if (type == "ByteLevel") {
      if (steps_ > 0) step.fail("type", "ByteLevel after another step is not supported");
      out_.byte_level = true;
    } else if (type == "Replace") {
      before_fuse(step);
      if (out_.byte_fallback) step.fail("type", "\"Replace\" after ByteFallback is not supported");
      out_.replacements.emplace_back(required_literal(step), short_text(step, "content"));
    } else if (type == "ByteFallback") {
      before_fuse(step);
      out_.byte_fallback = true;
    } else if (type == "Metaspace") {
      before_fuse(step);
      read_metaspace(step);
    } else if (type == "Fuse") {
      fused_ = true;
    } else if (type == "Strip") {
      read_strip(step);
    } else {
      refuse_type(step, "ByteLevel, Replace, ByteFallback, Metaspace, Fuse, Strip");
    }
    ++steps_;
  }
  [[nodiscard]] const token_decoding& result() const { return out_; }
  [[nodiscard]] int steps() const { return steps_; }

private:
  void before_fuse(const json_reader& step) const {
    if (fused_) step.fail("type", in_quotes(step.required_text("type")) + " after Fuse is not supported");
  }
  void read_metaspace(const json_reader& step) {
    auto replacement = step.text("replacement").value_or("\xE2\x96\x81");
    if (replacement.empty() || replacement.size() > content_bytes_max)
      step.fail("replacement", "must be one character");
    out_.replacements.emplace_back(replacement, " ");
    if (step.text("prepend_scheme").value_or("always") == "never" || !step.flag("add_prefix_space", true)) return;
    out_.strip = " ";
    out_.strip_max = 1;
  }
  void read_strip(const json_reader& step) {
    if (!fused_) step.fail("type", "\"Strip\" is supported only after Fuse");
    if (out_.strip_max > 0) step.fail("type", "a second \"Strip\" is not supported");
    if (step.count("stop", 0, 0x7FFFFFFF, 0) != 0)
      step.fail("stop", "is not supported (the end of a stream is not known); supported: 0");
    out_.strip = short_text(step, "content");
    if (out_.strip.empty() || read_utf8(out_.strip, 0).length != out_.strip.size())
      step.fail("content", "must be one character");
    out_.strip_max = step.count("start", 0, 1024, 0);
  }

  token_decoding out_;
  int steps_ = 0;
  bool fused_ = false;
};

} // namespace

std::vector<normalizer_step> read_normalizer(const json_reader& in) {
  std::vector<normalizer_step> out;
  std::size_t growth = 1;
  for (const auto& step : steps_of(in, "normalizer", "normalizers")) {
    const auto type = step.required_text("type");
    normalizer_step one;
    if (const auto form = form_of(type)) {
      one.form = *form;
    } else if (type == "Replace") {
      one.what = normalizer_step::kind::replace;
      one.from = required_literal(step);
      one.to = short_text(step, "content");
      check_growth(in, "normalizer", one.from, one.to, growth);
    } else if (type == "Prepend") {
      one.what = normalizer_step::kind::prepend;
      one.to = short_text(step, "prepend");
    } else if (type == "Strip") {
      one.what = normalizer_step::kind::strip;
      one.left = step.flag("strip_left", false);
      one.right = step.flag("strip_right", false);
    } else {
      refuse_type(step, "NFC, NFD, NFKC, NFKD, Replace, Prepend, Strip");
    }
    out.push_back(std::move(one));
  }
  return out;
}

void read_post_processor(const json_reader& in, tokenizer_pipeline& out) {
  for (const auto& step : steps_of(in, "post_processor", "processors")) {
    const auto type = step.required_text("type");
    if (type == "TemplateProcessing")
      read_template(step, out);
    else if (type != "ByteLevel") // offsets only
      refuse_type(step, "TemplateProcessing, ByteLevel");
  }
}

token_decoding read_decoder(const json_reader& in) {
  decoder_reader reader;
  for (const auto& step : steps_of(in, "decoder", "decoders")) reader.read(step);
  if (reader.steps() == 0) in.fail("decoder", "is missing");
  std::size_t growth = 1;
  for (const auto& [from, to] : reader.result().replacements) check_growth(in, "decoder", from, to, growth);
  return reader.result();
}

} // namespace godwit::gpu::model
