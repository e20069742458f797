#include "model/tokenizer_json.hpp"

#include "model/byte_alphabet.hpp"
#include "model/json_reader.hpp"
#include "model/tokenizer_parts.hpp"
#include "model/tokenizer_pipeline.hpp"
#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

#include <boost/json/array.hpp>
#include <boost/json/monotonic_resource.hpp>

#include <algorithm>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t file_bytes_max = 64U << 20U;
constexpr std::int64_t ids_max = 1 << 22;
constexpr std::size_t merges_max = 1U << 22U;
constexpr std::size_t added_max = 1U << 18U;
constexpr std::size_t token_bytes_max = 4096;

/// The bytes that a spelling in the byte alphabet stands for; text outside the alphabet stands for itself.
std::string bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const auto character = read_utf8(spelling, at);
    const auto byte = byte_alphabet::byte_of(character.code);
    if (!byte) return std::string(spelling);
    bytes += *byte;
    at += character.length;
  }
  return bytes;
}

std::string spelling_of_byte(std::uint8_t byte) {
  std::string text;
  append_utf8(text, byte_alphabet::characters[byte]);
  return text;
}

token_id id_of(const json_reader& in, std::string_view field, const boost::json::value& value) {
  const auto id = integer_of(value);
  if (!id || *id < 0 || *id >= ids_max)
    in.fail(field, "token ids must be integers from 0 to " + std::to_string(ids_max - 1));
  return static_cast<token_id>(*id);
}

void check_bpe(const json_reader& model) {
  if (const auto type = model.text("type"); type && *type != "BPE")
    model.fail("type", in_quotes(*type) + " is not supported; supported: \"BPE\" (byte-level)");
  if (model.number("dropout", 0.0, 1.0, 0.0) != 0.0) model.fail("dropout", "is not supported; supported: null");
  if (model.flag("byte_fallback", false))
    model.fail("byte_fallback", "true is not supported (a sentencepiece vocabulary); supported: byte-level BPE");
  for (const auto* field : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto text = model.text(field); text && !text->empty())
      model.fail(field, "is not supported; supported: null");
}

/// The vocabulary by its spelling; merges are written in spellings too.
class spellings {
public:
  explicit spellings(const json_reader& model) : model_(model), vocab_(model.required_object("vocab")) {
    std::vector<bool> taken;
    for (const auto& field : vocab_.fields()) {
      const std::string_view spelling(field.key().data(), field.key().size());
      const auto id = id_of(vocab_, in_quotes(spelling), field.value());
      if (spelling.size() > token_bytes_max)
        model_.fail("vocab", "has a token of more than " + std::to_string(token_bytes_max) + " bytes");
      if (taken.size() <= static_cast<std::size_t>(id)) taken.resize(static_cast<std::size_t>(id) + 1);
      if (taken[static_cast<std::size_t>(id)]) model_.fail("vocab", "gives id " + std::to_string(id) + " twice");
      taken[static_cast<std::size_t>(id)] = true;
      entries_.push_back({id, bytes_of_spelling(spelling)});
    }
  }

  [[nodiscard]] std::optional<token_id> find(std::string_view spelling) const {
    const auto* value = vocab_.find(spelling);
    return value ? std::optional(static_cast<token_id>(*integer_of(*value))) : std::nullopt;
  }
  [[nodiscard]] const std::vector<vocabulary::entry>& entries() const { return entries_; }

private:
  json_reader model_;
  json_reader vocab_;
  std::vector<vocabulary::entry> entries_;
};

/// "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> pair_of(const json_reader& model, const boost::json::value& value) {
  if (const auto* text = value.if_string()) {
    const std::string_view both(text->data(), text->size());
    const auto space = both.find(' ');
    if (space != std::string_view::npos && both.find(' ', space + 1) == std::string_view::npos)
      return {both.substr(0, space), both.substr(space + 1)};
  } else if (const auto* array = value.if_array(); array && array->size() == 2) {
    const auto* left = (*array)[0].if_string();
    const auto* right = (*array)[1].if_string();
    if (left && right) return {{left->data(), left->size()}, {right->data(), right->size()}};
  }
  model.fail("merges", "must hold \"a b\" or [\"a\", \"b\"]");
}

merge_table read_merges(const json_reader& model, const spellings& vocab) {
  const auto* merges = model.array("merges");
  if (!merges) model.fail("merges", "is missing");
  if (merges->size() > merges_max) model.fail("merges", "has more than " + std::to_string(merges_max) + " entries");
  merge_table table(merges->size());
  std::string whole;
  std::uint32_t rank = 0;
  for (const auto& value : *merges) {
    const auto [left, right] = pair_of(model, value);
    const auto left_id = vocab.find(left);
    const auto right_id = vocab.find(right);
    whole.assign(left).append(right);
    const auto into = vocab.find(whole);
    if (!left_id || !right_id || !into)
      model.fail("merges",
                 in_quotes(whole) + " (entry " + std::to_string(rank) + ") joins tokens that are not all in vocab");
    table.add(*left_id, *right_id, {rank++, *into});
  }
  return table;
}

struct added_lists {
  std::vector<added_token> raw;
  std::vector<added_token> normalized;
};

void read_added_token(const json_reader& entry, const spellings& vocab, added_lists& out) {
  added_token token;
  token.content = entry.required_text("content");
  if (token.content.empty() || token.content.size() > token_bytes_max)
    entry.fail("content", "must have from 1 to " + std::to_string(token_bytes_max) + " bytes");
  // As in the tokenizers library: the vocabulary's id wins over the one written here.
  const auto known = vocab.find(token.content);
  token.id = known ? *known : id_of(entry, "id", entry.get("id"));
  if (entry.flag("single_word", false))
    entry.fail("single_word", "true is not supported (token " + in_quotes(token.content) + "); supported: false");
  token.special = entry.flag("special", false);
  token.lstrip = entry.flag("lstrip", false);
  token.rstrip = entry.flag("rstrip", false);
  (entry.flag("normalized", !token.special) ? out.normalized : out.raw).push_back(std::move(token));
}

added_lists read_added(const json_reader& in, const spellings& vocab) {
  added_lists out;
  const auto* tokens = in.array("added_tokens");
  if (!tokens) return out;
  if (tokens->size() > added_max) in.fail("added_tokens", "has more than " + std::to_string(added_max) + " entries");
  for (const auto& value : *tokens) read_added_token(json_reader(value, in.file(), "added_tokens."), vocab, out);
  return out;
}

/// Every byte that UTF-8 text can hold must have its token, or text would be lost without a word.
std::array<token_id, 256> read_byte_tokens(const json_reader& model, const spellings& vocab) {
  std::array<token_id, 256> tokens{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto id = vocab.find(spelling_of_byte(static_cast<std::uint8_t>(byte)));
    const bool in_utf8 = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    if (!id && in_utf8) model.fail("vocab", "has no token for byte " + std::to_string(byte) + "; is it byte-level?");
    tokens[byte] = id.value_or(-1);
  }
  return tokens;
}

} // namespace

std::unique_ptr<const tokenizer::parts> read_tokenizer_json(std::string_view json, const std::string& file) {
  boost::json::monotonic_resource memory;
  const auto value = parse_json(json, file, file_bytes_max, &memory);
  const json_reader in(value, file);
  auto pipeline = read_pipeline(in);
  const auto model = in.required_object("model");
  check_bpe(model);
  const spellings vocab(model);
  auto added = read_added(in, vocab);
  if (pipeline.nfc)
    for (auto& token : added.normalized) token.content = unicode::nfc(token.content);

  auto entries = vocab.entries();
  std::vector<bool> is_added, is_special;
  token_id highest = -1;
  for (const auto& entry : entries) highest = std::max(highest, entry.id);
  for (const auto* list : {&added.raw, &added.normalized})
    for (const auto& token : *list) highest = std::max(highest, token.id);
  is_added.resize(static_cast<std::size_t>(highest + 1));
  is_special.resize(static_cast<std::size_t>(highest + 1));
  for (const auto* list : {&added.raw, &added.normalized}) {
    for (const auto& token : *list) {
      is_added[static_cast<std::size_t>(token.id)] = true;
      if (token.special) is_special[static_cast<std::size_t>(token.id)] = true;
      entries.push_back({token.id, token.content}); // a later entry wins
    }
  }

  auto parts = std::make_unique<tokenizer::parts>(entries, added.raw, added.normalized, read_merges(model, vocab));
  parts->byte_tokens = read_byte_tokens(model, vocab);
  parts->added = std::move(is_added);
  parts->special = std::move(is_special);
  parts->splits = std::move(pipeline.splits);
  for (const auto* ids : {&pipeline.prefix, &pipeline.suffix})
    for (const auto id : *ids)
      if (id > highest)
        in.fail("post_processor", "adds token id " + std::to_string(id) + ", which is not in the vocabulary");
  parts->prefix = std::move(pipeline.prefix);
  parts->suffix = std::move(pipeline.suffix);
  parts->nfc = pipeline.nfc;
  parts->prefix_space = pipeline.prefix_space;
  parts->ignore_merges = model.flag("ignore_merges", false);
  return parts;
}

} // namespace godwit::gpu::model
