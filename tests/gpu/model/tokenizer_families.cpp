#include "gpu/model/tokenizer_families.hpp"

#include "gpu/model/bpe_trainer.hpp"
#include "gpu/model/tokenizer_files.hpp"

#include "model/byte_alphabet.hpp"
#include "model/text_normalizer.hpp"
#include "model/utf8.hpp"
#include "model/word_splitter.hpp"

#include <algorithm>
#include <stdexcept>

namespace godwit::gpu::model::tests {

namespace {

constexpr std::string_view mark = "\xE2\x96\x81";

std::string written_in_json(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, byte_alphabet::characters[static_cast<std::uint8_t>(c)]);
  return out;
}

const std::string& training_text() {
  static const auto text = [] {
    auto all = repository_text(200000);
    for (const auto& hard : hard_texts())
      if (is_utf8(hard) && hard.size() < 300) all += hard + "\n";
    return all;
  }();
  return text;
}

using counts = std::map<std::string, std::uint64_t>;

counts byte_words(split_pattern pattern) {
  counts words;
  std::vector<std::string_view> cut;
  split_step{pattern, {}, {}}.cut(training_text(), cut);
  for (const auto word : cut) ++words[written_in_json(word)];
  return words;
}

/// Sentencepiece's words: a run of marks and what follows. `across`: two of them at a time.
counts marked_words(bool across) {
  std::string text;
  append_replaced(text, training_text(), " ", mark);
  counts words;
  std::string before;
  const auto add = [&](const std::string& word) {
    ++words[across ? before + word : word];
    before = word;
  };
  std::string word;
  for (std::size_t at = 0; at < text.size();) {
    const auto one = text.substr(at, read_utf8(text, at).length);
    const bool is_mark = one == mark;
    if ((is_mark && !word.empty() && !word.ends_with(mark)) || one == "\n" || word == "\n") {
      if (!word.empty()) add(word);
      word.clear();
    }
    word += one;
    at += one.size();
  }
  if (!word.empty()) add(word);
  return words;
}

class vocabulary_writer {
public:
  void token(std::string_view spelling) {
    if (std::find(taken_.begin(), taken_.end(), spelling) != taken_.end()) return;
    taken_.emplace_back(spelling);
    text_ += (text_.empty() ? "" : ",") + json_string(spelling) + ":" + std::to_string(next_++);
  }
  void tokens(const trained_bpe& trained) { // no token twice among these
    for (const auto& one : trained.tokens) {
      text_ += (text_.empty() ? "" : ",") + json_string(one) + ":" + std::to_string(next_++);
    }
  }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] int next() const { return next_; }

private:
  std::string text_;
  std::vector<std::string> taken_;
  int next_ = 0;
};

std::string merges_of(const trained_bpe& trained, bool as_pairs) {
  std::string out;
  for (const auto& [left, right] : trained.merges) {
    out += out.empty() ? "" : ",";
    out += as_pairs ? "[" + json_string(left) + "," + json_string(right) + "]" : json_string(left + " " + right);
  }
  return out;
}

std::string added(int id, std::string_view content, bool special, std::string_view more = "") {
  return "{\"id\":" + std::to_string(id) + ",\"content\":" + json_string(content) +
         ",\"single_word\":false,\"lstrip\":" + (more == "lstrip" ? "true" : "false") +
         ",\"rstrip\":" + (more == "rstrip" ? "true" : "false") +
         ",\"normalized\":" + (more == "normalized" ? "true" : "false") +
         ",\"special\":" + (special ? "true" : "false") + "}";
}

std::string file_of(const std::string& added_tokens, const std::string& normalizer, const std::string& pre_tokenizer,
                    const std::string& post_processor, const std::string& decoder, const std::string& model) {
  return "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[" + added_tokens +
         "],\"normalizer\":" + normalizer + ",\"pre_tokenizer\":" + pre_tokenizer +
         ",\"post_processor\":" + post_processor + ",\"decoder\":" + decoder + ",\"model\":" + model + "}";
}

const std::string byte_level_decoder =
    R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
const std::string byte_level_post =
    R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true})";

std::string begin_template(const std::string& token, int id) {
  const auto name = json_string(token);
  const auto special = R"({"SpecialToken":{"id":)" + name + R"(,"type_id":0}})";
  return R"({"type":"TemplateProcessing","single":[)" + special + R"(,{"Sequence":{"id":"A","type_id":0}}],"pair":[)" +
         special + R"(,{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{)" +
         name + R"(:{"id":)" + name + ",\"ids\":[" + std::to_string(id) + "],\"tokens\":[" + name + "]}}}";
}

struct byte_level_options {
  split_pattern pattern = split_pattern::gpt2;
  std::string split; ///< as it stands in JSON; empty: ByteLevel's own
  bool nfc = false;
  bool ignore_merges = false;
  bool merges_as_pairs = false;
  std::vector<std::string> special;
  std::vector<std::string> plain; ///< added, not special
  std::string begin;              ///< put in front by the post-processor
};

std::string byte_level(const byte_level_options& options) {
  std::vector<std::string> alphabet;
  for (const auto code : byte_alphabet::characters) append_utf8(alphabet.emplace_back(), code);
  const auto trained = train_bpe(byte_words(options.pattern), 1500, alphabet);
  vocabulary_writer vocab;
  vocab.tokens(trained);
  std::string tokens;
  auto id = vocab.next();
  int begin = 0;
  for (const auto* list : {&options.special, &options.plain})
    for (const auto& content : *list) {
      if (content == options.begin) begin = id;
      tokens += (tokens.empty() ? "" : ",") + added(id++, content, list == &options.special);
    }
  const auto pre_tokenizer =
      options.split.empty()
          ? std::string(R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})")
          : split_by(options.split);
  const auto post = options.begin.empty() ? byte_level_post
                                          : R"({"type":"Sequence","processors":[)" + byte_level_post + "," +
                                                begin_template(options.begin, begin) + "]}";
  return file_of(tokens, options.nfc ? R"({"type":"NFC"})" : "null", pre_tokenizer, post, byte_level_decoder,
                 std::string(R"({"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)") +
                     R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":)" +
                     (options.ignore_merges ? "true" : "false") + ",\"vocab\":{" + vocab.text() + "},\"merges\":[" +
                     merges_of(trained, options.merges_as_pairs) + "]}");
}

struct by_character_options {
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string decoder;
  bool bytes = true;   ///< with byte fallback
  bool across = false; ///< merges go across words
  bool merges_as_pairs = false;
  bool newline_merges = false;
  std::vector<std::string> special;
  std::string added_flag; ///< of the last of them
};

const std::string llama_decoder =
    R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
    R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
const std::string gemma_decoder =
    R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
    R"({"type":"ByteFallback"},{"type":"Fuse"}]})";
const std::string llama_normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
                                     R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]})";

std::string by_character(const by_character_options& options) {
  vocabulary_writer vocab;
  std::string tokens;
  std::vector<std::string> front{"<unk>", "<s>", "</s>"};
  front.insert(front.end(), options.special.begin(), options.special.end());
  for (const auto& content : front) {
    tokens += (tokens.empty() ? "" : ",") +
              added(vocab.next(), content, true, content == front.back() ? options.added_flag : std::string());
    vocab.token(content);
  }
  constexpr auto digits = "0123456789ABCDEF";
  if (options.bytes)
    for (unsigned byte = 0; byte < 256; ++byte)
      vocab.token(std::string("<0x") + digits[byte >> 4U] + digits[byte & 15U] + ">");
  auto words = marked_words(options.across);
  if (options.newline_merges) words["\n\n\n\n"] = 1000;
  // Characters that come seldom get no token: that is what byte fallback and the unknown token are for. Long words
  // and those that come once teach little and take long.
  counts characters, frequent;
  for (const auto& [word, count] : words)
    for (std::size_t at = 0; at < word.size();) {
      const auto one = word.substr(at, read_utf8(word, at).length);
      characters[one] += count;
      at += one.size();
    }
  for (const auto& [word, count] : words) {
    bool known = count >= 2 && word.size() <= 60;
    for (std::size_t at = 0; at < word.size() && known;) {
      const auto one = word.substr(at, read_utf8(word, at).length);
      known = characters[one] >= 30;
      at += one.size();
    }
    if (known) frequent.emplace(word, count);
  }
  const auto trained = train_bpe(frequent, 1500);
  vocab.tokens(trained);
  return file_of(tokens, options.normalizer, options.pre_tokenizer, begin_template("<s>", 1), options.decoder,
                 std::string(R"({"type":"BPE","dropout":null,"unk_token":"<unk>","continuing_subword_prefix":null,)") +
                     R"("end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":)" +
                     (options.bytes ? "true" : "false") + ",\"ignore_merges\":false,\"vocab\":{" + vocab.text() +
                     "},\"merges\":[" + merges_of(trained, options.merges_as_pairs) + "]}");
}

std::string metaspace(const std::string& scheme, bool split) {
  return R"({"type":"Metaspace","replacement":"▁","prepend_scheme":")" + scheme + R"(","split":)" +
         (split ? "true" : "false") + "}";
}

tokenizer_family gpt2() {
  byte_level_options options;
  options.special = {"<|endoftext|>"};
  return {"gpt2", byte_level(options)};
}

tokenizer_family llama3() {
  byte_level_options options;
  options.pattern = split_pattern::llama3;
  options.split = llama3_pattern;
  options.ignore_merges = true;
  options.special = {"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  for (int i = 0; i < 40; ++i) options.special.push_back("<|reserved_special_token_" + std::to_string(i) + "|>");
  options.begin = "<|begin_of_text|>";
  return {"llama3", byte_level(options)};
}

tokenizer_family qwen() {
  byte_level_options options;
  options.pattern = split_pattern::qwen2;
  options.split = qwen2_pattern;
  options.nfc = true;
  options.merges_as_pairs = true;
  options.special = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  options.plain = {"<tool_call>", "</tool_call>", "<think>", "</think>"};
  return {"qwen", byte_level(options), false};
}

tokenizer_family gpt4o() {
  byte_level_options options;
  options.pattern = split_pattern::o200k;
  options.split = o200k_pattern;
  options.special = {"<|endoftext|>", "<|start|>", "<|end|>"};
  return {"gpt4o", byte_level(options)};
}

tokenizer_family tekken() {
  byte_level_options options;
  options.pattern = split_pattern::tekken;
  options.split = tekken_pattern;
  options.ignore_merges = true;
  options.special = {"<unk>", "<s>", "</s>", "[INST]", "[/INST]"};
  options.begin = "<s>";
  return {"tekken", byte_level(options)};
}

tokenizer_family llama2(bool across) {
  by_character_options options;
  options.normalizer = llama_normalizer;
  options.decoder = llama_decoder;
  options.across = across;
  return {across ? "across" : "llama2", by_character(options)};
}

tokenizer_family mistral() {
  by_character_options options;
  options.pre_tokenizer = metaspace("first", false);
  options.decoder = llama_decoder;
  options.merges_as_pairs = true;
  options.special = {"[INST]", "[/INST]", "[TOOL_CALLS]"};
  return {"mistral", by_character(options)};
}

tokenizer_family gemma() {
  by_character_options options;
  options.normalizer = R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
  options.pre_tokenizer = R"({"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false})";
  options.decoder = gemma_decoder;
  options.newline_merges = true;
  options.special = {"<start_of_turn>", "<end_of_turn>"};
  return {"gemma", by_character(options)};
}

tokenizer_family unknown() {
  by_character_options options;
  options.pre_tokenizer = metaspace("always", false);
  options.decoder = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})";
  options.special = {"<mask>"};
  options.added_flag = "lstrip";
  options.bytes = false;
  return {"unknown", by_character(options), false};
}

tokenizer_family nfkc() {
  by_character_options options;
  options.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Strip","strip_left":true,"strip_right":true},)"
                       R"({"type":"NFKC"}]})";
  options.pre_tokenizer = metaspace("never", false);
  options.decoder = gemma_decoder;
  options.special = {"<sep>"};
  options.added_flag = "normalized";
  return {"nfkc", by_character(options), false};
}

tokenizer_family make(std::string_view name) {
  if (name == "gpt2") return gpt2();
  if (name == "llama3") return llama3();
  if (name == "qwen") return qwen();
  if (name == "gpt4o") return gpt4o();
  if (name == "tekken") return tekken();
  if (name == "llama2") return llama2(false);
  if (name == "across") return llama2(true);
  if (name == "mistral") return mistral();
  if (name == "gemma") return gemma();
  if (name == "unknown") return unknown();
  if (name == "nfkc") return nfkc();
  throw std::logic_error("no such family");
}

} // namespace

std::string json_string(std::string_view text) {
  constexpr auto hex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (byte < 0x20)
      ((out += "\\u00") += hex[byte >> 4U]) += hex[byte & 15U];
    else
      out += c;
  }
  return out + "\"";
}

const std::vector<std::string>& family_names() {
  static const std::vector<std::string> names{"gpt2",   "llama3",  "qwen",  "gpt4o",   "tekken", "llama2",
                                              "across", "mistral", "gemma", "unknown", "nfkc"};
  return names;
}

const tokenizer_family& family(std::string_view name) {
  static std::map<std::string, tokenizer_family, std::less<>> made; // tests run on one thread
  const auto found = made.find(name);
  return found != made.end() ? found->second : made.emplace(name, make(name)).first->second;
}

} // namespace godwit::gpu::model::tests
