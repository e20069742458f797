#include "model/gguf_model.hpp"
#include "model/json_reader.hpp"
#include "model/utf8.hpp"
#include "model/word_splitter.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace godwit::gpu::model {

namespace json = boost::json;

namespace {

constexpr std::string_view mark = "\xE2\x96\x81"; // U+2581

/// tokenizer.ggml.token_type
enum token_kind : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

/// How texts are cut into words, by what llama.cpp calls it.
struct cutting {
  split_pattern words = split_pattern::gpt2; ///< GPT-2's ByteLevel has itself
  bool digits = false;                       ///< each by itself first
  bool nfc = false;
  bool whole_words = false; ///< one that is a token as it is becomes that one
  bool begins = false;      ///< with the token for the beginning, unless the file says otherwise
};
constexpr auto llama3 = split_pattern::llama3, qwen2 = split_pattern::qwen2, o200k = split_pattern::o200k,
               tekken = split_pattern::tekken, gpt2 = split_pattern::gpt2;

struct known_cutting {
  std::string_view name; ///< tokenizer.ggml.pre
  cutting is;
};
constexpr std::array cuttings{known_cutting{"gpt-2", {}},
                              known_cutting{"phi-2", {}},
                              known_cutting{"llama-bpe", {llama3, false, false, true, true}},
                              known_cutting{"llama3", {llama3, false, false, true, true}},
                              known_cutting{"llama-v3", {llama3, false, false, true, true}},
                              known_cutting{"falcon3", {llama3, false, false, true, true}},
                              known_cutting{"pixtral", {llama3, false, false, true, true}},
                              known_cutting{"dbrx", {llama3, false, false, false, false}},
                              known_cutting{"smaug-bpe", {llama3, false, false, false, false}},
                              known_cutting{"qwen2", {qwen2, false, true, false, false}},
                              known_cutting{"deepseek-r1-qwen", {qwen2, false, true, false, false}},
                              known_cutting{"smollm", {gpt2, true, false, false, false}},
                              known_cutting{"starcoder", {gpt2, true, false, false, false}},
                              known_cutting{"refact", {gpt2, true, false, false, false}},
                              known_cutting{"gpt-4o", {o200k, false, false, false, false}},
                              known_cutting{"llama4", {o200k, false, false, false, false}},
                              known_cutting{"tekken", {tekken, false, false, true, true}}};

class tokenizer_writer {
public:
  explicit tokenizer_writer(const gguf_file& head) : head_(head) {
    auto texts = head_.texts("tokenizer.ggml.tokens");
    if (!texts)
      throw model_error(head_.name(), "has no \"tokenizer.ggml.tokens\"; a model is served with its tokenizer");
    texts_ = std::move(*texts);
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (!is_utf8(texts_[id]))
        head_.fail("tokenizer.ggml.tokens",
                   "has " + in_quotes(texts_[id]) + " as token " + std::to_string(id) + ", which is not UTF-8");
    const auto kinds = head_.numbers("tokenizer.ggml.token_type");
    if (kinds && kinds->size() != texts_.size())
      head_.fail("tokenizer.ggml.token_type", "must have as many entries as tokenizer.ggml.tokens");
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const int kind = kinds ? static_cast<int>(std::clamp((*kinds)[id], 0.0, 7.0)) : normal;
      kinds_.push_back(kind >= normal && kind <= byte ? static_cast<token_kind>(kind) : normal);
    }
    for (const auto id : gguf_ends(texts_)) kinds_[id] = control;
    std::unordered_map<std::string_view, std::size_t> seen;
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (const auto [found, first] = seen.emplace(texts_[id], id); !first)
        head_.fail("tokenizer.ggml.tokens", "has " + in_quotes(texts_[id]) + " as token " +
                                                std::to_string(found->second) + " and as token " + std::to_string(id));
  }

  std::string write() {
    const auto model = head_.text("tokenizer.ggml.model").value_or("");
    if (model == "gpt2")
      by_bytes();
    else if (model == "llama")
      by_pieces();
    else
      head_.fail("tokenizer.ggml.model",
                 "is " + in_quotes(model) + R"(, which is not supported; supported: "gpt2", "llama")");
    added();
    return json::serialize(out_);
  }

private:
  void by_bytes() {
    const auto name = head_.text("tokenizer.ggml.pre").value_or("");
    const auto* const found = std::ranges::find(cuttings, name, &known_cutting::name);
    if (found == cuttings.end()) {
      std::string all;
      for (const auto& one : cuttings) all += (all.empty() ? "" : ", ") + in_quotes(one.name);
      head_.fail("tokenizer.ggml.pre", name.empty()
                                           ? "is missing: how texts are cut is not known; supported: " + all
                                           : "is " + in_quotes(name) + ", which is not supported; supported: " + all);
    }
    const auto& is = found->is;
    json::array steps;
    if (is.digits) steps.push_back(json::object{{"type", "Digits"}, {"individual_digits", true}});
    if (is.words != gpt2)
      steps.push_back(json::object{{"type", "Split"},
                                   {"pattern", {{"Regex", regex_of(is.words)}}},
                                   {"behavior", "Isolated"},
                                   {"invert", false}});
    const bool space = head_.flag("tokenizer.ggml.add_space_prefix").value_or(false) && steps.empty();
    steps.push_back(json::object{{"type", "ByteLevel"}, {"add_prefix_space", space}, {"use_regex", is.words == gpt2}});
    if (is.nfc) out_["normalizer"] = json::object{{"type", "NFC"}};
    out_["pre_tokenizer"] = json::object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
    out_["decoder"] = json::object{{"type", "ByteLevel"}};
    auto merges = head_.texts("tokenizer.ggml.merges");
    if (!merges) throw model_error(head_.name(), "has no \"tokenizer.ggml.merges\"");
    json::array written;
    written.reserve(merges->size());
    // Of what is no token nothing comes, as llama.cpp has it; whatever else is wrong the reader says.
    const std::unordered_set<std::string_view> known(texts_.begin(), texts_.end());
    for (const auto one : *merges) {
      const auto cut = one.find(' ', 1);
      if (cut != std::string_view::npos &&
          (!known.contains(one.substr(0, cut)) || !known.contains(one.substr(cut + 1)) ||
           !known.contains(std::string(one.substr(0, cut)) + std::string(one.substr(cut + 1)))))
        continue;
      written.emplace_back(one);
    }
    out_["model"] = json::object{
        {"type", "BPE"}, {"ignore_merges", is.whole_words}, {"vocab", vocabulary()}, {"merges", std::move(written)}};
    ends(is.begins);
  }

  /// sentencepiece's BPE: what is merged first has the highest score.
  void by_pieces() {
    by_scores_ = true;
    const auto scores = head_.numbers("tokenizer.ggml.scores");
    if (!scores || scores->size() != texts_.size())
      head_.fail("tokenizer.ggml.scores", "must be there, with as many entries as tokenizer.ggml.tokens");
    const bool space = head_.flag("tokenizer.ggml.add_space_prefix").value_or(true);
    json::array normalizers;
    if (space) normalizers.push_back(json::object{{"type", "Prepend"}, {"prepend", mark}});
    normalizers.push_back(json::object{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}});
    out_["normalizer"] = json::object{{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
    json::array decoders{json::object{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                         json::object{{"type", "ByteFallback"}}, json::object{{"type", "Fuse"}}};
    if (space) decoders.push_back(json::object{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    out_["decoder"] = json::object{{"type", "Sequence"}, {"decoders", std::move(decoders)}};
    json::object model{{"type", "BPE"}, {"byte_fallback", true}, {"fuse_unk", true}};
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (kinds_[id] == unknown) model["unk_token"] = texts_[id];
    model["merges"] = merges_by_score(*scores);
    model["vocab"] = vocabulary();
    out_["model"] = std::move(model);
    ends(true);
  }

  /// Whatever two tokens make a third one: that one's score says when; as transformers converts such a vocabulary.
  json::array merges_by_score(const std::vector<double>& scores) const {
    text_map<std::size_t> ids;
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (kinds_[id] == normal || kinds_[id] == unused || kinds_[id] == user_defined) ids.emplace(texts_[id], id);
    struct merge {
      double score;
      std::size_t left, right;
      std::string_view whole;
      std::size_t cut;
    };
    constexpr std::size_t piece_bytes_max = 256; // of n bytes there are n cuts, each of which is looked up
    std::vector<merge> all;
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const auto whole = texts_[id];
      if (kinds_[id] != normal || whole.size() > piece_bytes_max) continue;
      for (std::size_t cut = 1; cut < whole.size(); ++cut) {
        if ((static_cast<unsigned char>(whole[cut]) & 0xC0U) == 0x80U) continue; // within a character
        const auto left = ids.find(whole.substr(0, cut)), right = ids.find(whole.substr(cut));
        if (left == ids.end() || right == ids.end()) continue;
        if (all.size() == gguf_file::entries_max)
          head_.fail("tokenizer.ggml.tokens", "have more than " + std::to_string(all.size()) + " merges");
        all.push_back({scores[id], left->second, right->second, whole, cut});
      }
    }
    std::ranges::stable_sort(all, [](const merge& a, const merge& b) {
      if (a.score != b.score) return a.score > b.score;
      return a.left != b.left ? a.left < b.left : a.right < b.right;
    });
    json::array out;
    out.reserve(all.size());
    for (const auto& one : all) out.push_back(json::array{one.whole.substr(0, one.cut), one.whole.substr(one.cut)});
    return out;
  }

  json::object vocabulary() const {
    json::object out;
    out.reserve(texts_.size());
    for (std::size_t id = 0; id < texts_.size(); ++id)
      out.emplace(texts_[id], id); // the first of two that are spelled alike
    return out;
  }

  /// Hugging Face's Phi-3 takes the white space behind most of its special tokens away.
  [[nodiscard]] bool takes_space_behind(std::string_view token) const {
    return head_.text("general.architecture") == "phi3" && head_.text("tokenizer.ggml.model") == "llama" &&
           token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
  }

  void added() {
    json::array tokens;
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      if (kinds_[id] != control && kinds_[id] != user_defined && kinds_[id] != unknown) continue;
      if (texts_[id].empty()) continue;
      tokens.push_back(json::object{{"id", id},
                                    {"content", texts_[id]},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", takes_space_behind(texts_[id])},
                                    {"normalized", false},
                                    {"special", kinds_[id] != user_defined}});
    }
    out_["added_tokens"] = std::move(tokens);
  }

  /// What stands around every text.
  void ends(bool begins) {
    json::array single;
    json::object special;
    const auto add = [&](const char* flag, bool absent, const std::string& name, std::optional<std::int64_t> usual) {
      if (!head_.flag("tokenizer.ggml." + std::string(flag)).value_or(absent)) return;
      const auto key = "tokenizer.ggml." + name + "_token_id";
      const auto id = head_.has(key) ? head_.integer(key) : usual;
      if (!id && !head_.has("tokenizer.ggml." + std::string(flag))) return;
      if (!id || *id < 0 || static_cast<std::uint64_t>(*id) >= texts_.size())
        head_.fail(key, "must be a token of tokenizer.ggml.tokens, since " + std::string(flag) + " asks for it");
      single.push_back(json::object{{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
      special[name] = json::object{
          {"id", name}, {"ids", json::array{*id}}, {"tokens", json::array{texts_[static_cast<std::size_t>(*id)]}}};
    };
    const auto of_pieces = [&](std::int64_t id) { return by_scores_ ? std::optional(id) : std::nullopt; };
    add("add_bos_token", begins, "bos", of_pieces(1));
    single.push_back(json::object{{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add("add_eos_token", false, "eos", of_pieces(2));
    if (single.size() > 1)
      out_["post_processor"] = json::object{
          {"type", "TemplateProcessing"}, {"single", std::move(single)}, {"special_tokens", std::move(special)}};
  }

  const gguf_file& head_;
  std::vector<std::string_view> texts_;
  std::vector<token_kind> kinds_;
  bool by_scores_ = false; ///< as sentencepiece has it
  json::object out_;
};

} // namespace

std::vector<std::size_t> gguf_ends(std::span<const std::string_view> tokens) {
  constexpr std::array spelled{"<|eot_id|>",
                               "<|im_end|>",
                               "<|end|>",
                               "<|return|>",
                               "<|call|>",
                               "<|flush|>",
                               "<|calls|>",
                               "<end_of_turn>",
                               "<|endoftext|>",
                               "</s>",
                               "<|eom_id|>",
                               "<EOT>",
                               "_<EOT>",
                               "[EOT]",
                               "[EOS]",
                               "<eos>",
                               "<|end_of_text|>",
                               "<end_of_utterance>",
                               "<turn|>",
                               "<\xEF\xBD\x9C"
                               "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};
  std::vector<std::size_t> out;
  std::optional<std::size_t> end;
  bool returns = false, calls = false;
  // In Gemma's vocabulary that is HTML's end of what is struck out; the file names the ends of answers.
  const bool has_tags = std::ranges::find(tokens, "<end_of_turn>") != tokens.end();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (std::ranges::find(spelled, tokens[id]) == spelled.end() || (has_tags && tokens[id] == "</s>")) continue;
    returns = returns || tokens[id] == "<|return|>";
    calls = calls || tokens[id] == "<|call|>";
    if (tokens[id] == "<|end|>")
      end = id; // of a part of an answer, where others end it
    else
      out.push_back(id);
  }
  if (end && !(returns && calls)) out.push_back(*end);
  return out;
}

std::string gguf_tokenizer_json(const gguf_file& head) { return tokenizer_writer(head).write(); }

std::string gguf_tokenizer_config_json(const gguf_file& head) {
  json::object out;
  const auto texts = head.texts("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>{});
  constexpr std::array names{std::pair{"bos", "bos_token"}, std::pair{"eos", "eos_token"},
                             std::pair{"padding", "pad_token"}, std::pair{"unknown", "unk_token"}};
  for (const auto& [ours, theirs] : names)
    if (const auto id = head.integer("tokenizer.ggml." + std::string(ours) + "_token_id");
        id && *id >= 0 && static_cast<std::uint64_t>(*id) < texts.size())
      out[theirs] = texts[static_cast<std::size_t>(*id)];
  for (const auto* name : {"tokenizer.chat_template", "tokenizer.chat_template.tool_use"})
    if (const auto text = head.text(name); text && !is_utf8(*text)) head.fail(name, "is not UTF-8");
  if (const auto text = head.text("tokenizer.chat_template")) {
    json::array all{json::object{{"name", "default"}, {"template", *text}}};
    if (const auto tools = head.text("tokenizer.chat_template.tool_use"))
      all.push_back(json::object{{"name", "tool_use"}, {"template", *tools}});
    out["chat_template"] = std::move(all);
  }
  return json::serialize(out);
}

} // namespace godwit::gpu::model
