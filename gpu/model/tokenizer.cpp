#include <godwit/gpu/model/tokenizer.hpp>

#include "model/json_reader.hpp"
#include "model/tokenizer_json.hpp"
#include "model/tokenizer_parts.hpp"
#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

#include <stdexcept>
#include <unordered_map>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t text_bytes_max = 1U << 30U;

/// Cuts by one pattern after the other.
void split(std::string_view text, const std::vector<split_pattern>& patterns, std::vector<std::string_view>& words) {
  words.assign(1, text);
  std::vector<std::string_view> before, part;
  for (const auto pattern : patterns) {
    std::swap(before, words);
    words.clear();
    for (const auto word : before) {
      split_words(word, pattern, part);
      words.insert(words.end(), part.begin(), part.end());
    }
  }
}

/// Words come again and again: remembers where in the output a word's tokens stand. One per call of encode, so the
/// tokenizer itself stays immutable.
class word_cache {
public:
  /// True: the tokens of `word` have been appended once more.
  bool repeat(std::string_view word, std::vector<token_id>& out) const {
    const auto found = places_.find(word);
    if (found == places_.end()) return false;
    for (std::size_t i = 0; i < found->second.count; ++i) {
      const auto id = out[found->second.first + i]; // by value: push_back may move the elements
      out.push_back(id);
    }
    return true;
  }
  void remember(std::string_view word, std::size_t first, std::size_t count) {
    if (word.size() <= word_bytes_max && places_.size() < words_max) places_.emplace(word, place{first, count});
  }

private:
  static constexpr std::size_t word_bytes_max = 64;
  static constexpr std::size_t words_max = 1U << 16U;
  struct place {
    std::size_t first;
    std::size_t count;
  };
  std::unordered_map<std::string_view, place> places_;
};

} // namespace

tokenizer::tokenizer(std::unique_ptr<const parts> loaded) : parts_(std::move(loaded)) {}
tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;
tokenizer::~tokenizer() = default;

protocols::expected<tokenizer, model_error> tokenizer::from_json(std::string_view json, const std::string& file) {
  try {
    return tokenizer(read_tokenizer_json(json, file));
  } catch (const model_error& error) {
    return protocols::unexpected(error);
  } catch (const std::exception& error) {
    return protocols::unexpected(model_error(file, error.what()));
  }
}

std::vector<token_id> tokenizer::encode(std::string_view text, bool allow_special) const {
  if (text.size() > text_bytes_max) throw std::length_error("a text to tokenize is larger than 1 GiB");
  std::string repaired;
  if (!is_utf8(text)) {
    append_valid(repaired, text, true);
    text = repaired;
  }

  std::vector<token_id> out;
  out.reserve(text.size() / 3 + 8);
  std::vector<std::string_view> words;
  std::string changed;
  const auto encode_plain = [&](std::string_view piece) {
    // The cache's keys point into the piece, which may live in `changed`.
    word_cache cache;
    if (parts_->prefix_space && piece.front() != ' ') {
      changed.assign(" ").append(piece);
      piece = changed;
    }
    split(piece, parts_->splits, words);
    for (const auto word : words) {
      if (cache.repeat(word, out)) continue;
      const auto first = out.size();
      const auto known = parts_->ignore_merges ? parts_->words.find(word) : std::nullopt;
      if (known && !parts_->added[static_cast<std::size_t>(*known)])
        out.push_back(*known);
      else
        merge_word(word, parts_->byte_tokens, parts_->merges, out);
      cache.remember(word, first, out.size() - first);
    }
  };
  for (const auto& raw : parts_->added_raw.cut(text, allow_special)) {
    if (raw.token) {
      out.push_back(raw.token->id);
      continue;
    }
    std::string normal;
    if (parts_->nfc) normal = unicode::nfc(raw.text);
    for (const auto& piece : parts_->added_normalized.cut(parts_->nfc ? normal : raw.text, allow_special)) {
      if (piece.token)
        out.push_back(piece.token->id);
      else
        encode_plain(piece.text);
    }
  }
  return out;
}

const std::vector<token_id>& tokenizer::prefix() const noexcept { return parts_->prefix; }
const std::vector<token_id>& tokenizer::suffix() const noexcept { return parts_->suffix; }

std::string tokenizer::decode(std::span<const token_id> ids, bool skip_special) const {
  std::string raw;
  for (const auto id : ids)
    if (!skip_special || !is_special(id)) raw += bytes(id);
  std::string out;
  out.reserve(raw.size());
  append_valid(out, raw, true);
  return out;
}

std::string_view tokenizer::bytes(token_id id) const noexcept { return parts_->words.bytes(id); }

bool tokenizer::is_special(token_id id) const noexcept {
  return id >= 0 && static_cast<std::size_t>(id) < parts_->special.size() &&
         parts_->special[static_cast<std::size_t>(id)];
}

std::uint32_t tokenizer::size() const noexcept { return parts_->words.size(); }

std::optional<token_id> tokenizer::find(std::string_view text) const { return parts_->words.find(text); }

} // namespace godwit::gpu::model
