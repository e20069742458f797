#include "model/tokenizer_json.hpp"

#include "model/json_reader.hpp"
#include "model/spellings.hpp"
#include "model/tokenizer_parts.hpp"

#include <boost/json/array.hpp>
#include <boost/json/monotonic_resource.hpp>

#include <algorithm>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t file_bytes_max = 64U << 20U;
constexpr std::size_t added_max = 1U << 18U;
constexpr std::string_view usual_mark = "\xE2\x96\x81"; // U+2581

void check_bpe(const json_reader& model) {
  if (const auto type = model.text("type"); type && *type != "BPE")
    model.fail("type", in_quotes(*type) + " is not supported; supported: \"BPE\"");
  if (model.number("dropout", 0.0, 1.0, 0.0) != 0.0) model.fail("dropout", "is not supported; supported: null");
  for (const auto* field : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto text = model.text(field); text && !text->empty())
      model.fail(field, "is not supported; supported: null");
}

added_token read_added_token(const json_reader& entry, const spellings& vocab) {
  added_token token;
  token.content = entry.required_text("content");
  if (token.content.empty() || token.content.size() > token_bytes_max)
    entry.fail("content", "must have from 1 to " + std::to_string(token_bytes_max) + " bytes");
  // As in the tokenizers library: the vocabulary's id wins over the one written here.
  const auto known = vocab.find(token.content);
  token.id = known ? *known : id_of(entry, "id", entry.get("id"));
  token.single_word = entry.flag("single_word", false);
  token.special = entry.flag("special", false);
  token.lstrip = entry.flag("lstrip", false);
  token.rstrip = entry.flag("rstrip", false);
  token.normalized = entry.flag("normalized", !token.special);
  return token;
}

std::vector<added_token> read_added(const json_reader& in, const spellings& vocab) {
  std::vector<added_token> out;
  const auto* tokens = in.array("added_tokens");
  if (!tokens) return out;
  if (tokens->size() > added_max) in.fail("added_tokens", "has more than " + std::to_string(added_max) + " entries");
  for (const auto& value : *tokens)
    out.push_back(read_added_token(json_reader(value, in.file(), "added_tokens."), vocab));
  return out;
}

/// What is sought in raw text, and what in normalized text: there also the tokens' own spelling is normalized.
struct sought_tokens {
  std::vector<added_token> raw;
  std::vector<added_token> normalized;
};

sought_tokens sought(const std::vector<added_token>& added, const text_normalizer& normalizer) {
  sought_tokens out;
  std::string buffer;
  for (const auto& token : added) {
    auto& list = token.normalized ? out.normalized : out.raw;
    list.push_back(token);
    if (token.normalized) list.back().content = std::string(normalizer.apply(token.content, buffer));
  }
  return out;
}

/// What ids become in a text. Of tokens with the same text a later one is found by it: bytes, words, added tokens.
std::vector<vocabulary::entry> texts_of(const spellings& vocab, const std::vector<added_token>& added,
                                        const token_decoding& decoding) {
  std::vector<vocabulary::entry> out;
  out.reserve(vocab.entries().size() + added.size());
  const auto is_byte = [&](std::string_view spelling) {
    return decoding.byte_fallback && byte_of_spelling(spelling).has_value();
  };
  for (const bool bytes : {true, false})
    for (const auto& entry : vocab.entries())
      if (is_byte(entry.spelling) == bytes) out.push_back({entry.id, text_of_spelling(entry.spelling, decoding)});
  for (const auto& token : added)
    out.push_back({token.id, decoding.byte_level ? token.content : text_of_spelling(token.content, decoding)});
  return out;
}

/// What plain text may become.
std::vector<vocabulary::entry> words_of(const spellings& vocab, const std::vector<bool>& special, bool byte_level) {
  std::vector<vocabulary::entry> out;
  out.reserve(vocab.entries().size());
  for (const auto& entry : vocab.entries())
    if (!special[static_cast<std::size_t>(entry.id)])
      out.push_back({entry.id, byte_level ? bytes_of_spelling(entry.spelling) : std::string(entry.spelling)});
  return out;
}

bpe_rules read_rules(const json_reader& model, const spellings& vocab, bool byte_level) {
  bpe_rules rules;
  rules.by_bytes = byte_level;
  rules.ignore_merges = model.flag("ignore_merges", false);
  rules.fuse_unknown = model.flag("fuse_unk", false);
  const bool fallback = model.flag("byte_fallback", false);
  rules.byte_tokens.fill(-1);
  if (byte_level || fallback) rules.byte_tokens = read_byte_tokens(model, vocab, byte_level);
  if (byte_level) return rules;
  if (const auto text = model.text("unk_token")) {
    const auto id = vocab.find(*text);
    if (!id) model.fail("unk_token", in_quotes(*text) + " is not in vocab");
    rules.unknown = *id;
  }
  const bool all_bytes =
      std::all_of(rules.byte_tokens.begin(), rules.byte_tokens.end(), [](auto id) { return id >= 0; });
  if (rules.unknown < 0 && !all_bytes)
    model.fail("unk_token",
               "is missing, and vocab has no tokens for all bytes (\"<0x00>\" to \"<0xFF>\"): text would be "
               "lost without a word");
  if (all_bytes) rules.fuse_unknown = false; // nothing is unknown
  return rules;
}

} // namespace

std::unique_ptr<tokenizer::parts> read_tokenizer_json(std::string_view json, const std::string& file,
                                                      const std::set<std::string, std::less<>>& also_special,
                                                      token_id added_end) {
  boost::json::monotonic_resource memory;
  const auto value = parse_json(json, file, file_bytes_max, &memory);
  const json_reader in(value, file);
  auto pipeline = read_pipeline(in);
  const auto model = in.required_object("model");
  check_bpe(model);
  const spellings vocab(model);
  auto added = read_added(in, vocab);
  std::erase_if(added, [&](const added_token& token) { return token.id >= added_end; });
  for (auto& token : added) token.special = token.special || also_special.contains(token.content);
  text_normalizer normalizer(std::move(pipeline.normalizer));

  token_id highest = -1;
  for (const auto& entry : vocab.entries()) highest = std::max(highest, entry.id);
  for (const auto& token : added) highest = std::max(highest, token.id);
  for (const auto* ids : {&pipeline.prefix, &pipeline.suffix})
    for (const auto id : *ids)
      if (id > highest)
        in.fail("post_processor", "adds token id " + std::to_string(id) + ", which is not in the vocabulary");
  std::vector<bool> special(static_cast<std::size_t>(highest + 1));
  for (const auto& token : added)
    if (token.special) special[static_cast<std::size_t>(token.id)] = true;

  const auto rules = read_rules(model, vocab, pipeline.byte_level);
  const std::string mark = pipeline.metaspace ? pipeline.metaspace->replacement : std::string(usual_mark);
  auto merges = read_merges(model, vocab, special, mark);
  // What is decided over a whole word forbids to cut it. Unknown characters in a row do not go on across a known mark.
  const auto mark_id = vocab.find(mark);
  const bool fuses_across = rules.fuse_unknown && (!mark_id || special[static_cast<std::size_t>(*mark_id)]);
  const bool may_cut = !pipeline.byte_level && !merges.crosses_mark && !rules.ignore_merges && !fuses_across;

  const auto [raw, normalized] = sought(added, normalizer);
  auto parts = std::make_unique<tokenizer::parts>(
      texts_of(vocab, added, pipeline.decoding), raw, normalized,
      bpe_model(rules, std::move(merges.table), words_of(vocab, special, pipeline.byte_level)));
  parts->normalizer = std::move(normalizer);
  parts->prefix_space = pipeline.prefix_space;
  parts->metaspace = std::move(pipeline.metaspace);
  parts->splits = std::move(pipeline.splits);
  if (may_cut) parts->word_mark = mark;
  parts->special = std::move(special);
  parts->prefix = std::move(pipeline.prefix);
  parts->suffix = std::move(pipeline.suffix);
  parts->strip = std::move(pipeline.decoding.strip);
  parts->strip_max = pipeline.decoding.strip_max;
  return parts;
}

} // namespace godwit::gpu::model
