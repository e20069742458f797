#include "model/bpe_model.hpp"

#include "model/utf8.hpp"

#include <algorithm>
#include <bit>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t checked_bytes_max = 64; ///< longer words are merged each time

std::size_t bytes_of(const std::vector<vocabulary::entry>& words) {
  std::size_t sum = 0;
  for (const auto& word : words) sum += word.bytes.size();
  return sum;
}

} // namespace

word_cache::word_cache(std::size_t text_bytes) {
  constexpr std::size_t worth_it = 512, places_max = 1U << 13U;
  if (text_bytes >= worth_it) places_.resize(std::min(places_max, std::bit_ceil(text_bytes / 32)));
}

bool word_cache::repeat(std::string_view word, std::uint64_t hash, std::vector<token_id>& out) const {
  if (places_.empty()) return false;
  const auto& one = places_[static_cast<std::size_t>(hash) & (places_.size() - 1)];
  if (one.hash != hash || one.bytes != word.size() || std::memcmp(one.word.data(), word.data(), word.size()) != 0)
    return false;
  out.insert(out.end(), one.tokens.begin(), one.tokens.begin() + one.count);
  return true;
}

void word_cache::remember(std::string_view word, std::uint64_t hash, std::size_t first,
                          const std::vector<token_id>& out) {
  const auto count = out.size() - first;
  if (places_.empty() || word.size() > word_bytes_max || count > tokens_max) return;
  auto& one = places_[static_cast<std::size_t>(hash) & (places_.size() - 1)];
  one.hash = hash;
  one.bytes = static_cast<std::uint8_t>(word.size());
  one.count = static_cast<std::uint8_t>(count);
  std::copy(word.begin(), word.end(), one.word.begin());
  std::copy(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), one.tokens.begin());
}

bpe_model::bpe_model(const bpe_rules& rules, merge_table merges, const std::vector<vocabulary::entry>& words)
    : rules_(rules), merges_(std::move(merges)), words_(words.size(), bytes_of(words)) {
  // Single characters come first: they are the symbols that the others are merged from.
  if (!rules_.by_bytes)
    for (const auto& word : words)
      if (!word.bytes.empty() && read_utf8(word.bytes, 0).length == word.bytes.size()) words_.add(word.bytes, word.id);
  std::vector<token_id> symbols, merged;
  for (const auto& word : words) {
    if (word.bytes.empty()) continue;
    if (!rules_.ignore_merges) {
      if (word.bytes.size() > checked_bytes_max || !(rules_.by_bytes || is_utf8(word.bytes))) continue;
      symbols.clear();
      merged.clear();
      first_symbols(word.bytes, symbols);
      merge_symbols(symbols, merges_, merged);
      if (merged.size() != 1 || merged.front() != word.id) continue;
    }
    words_.add(word.bytes, word.id);
  }
}

void bpe_model::first_symbols(std::string_view word, std::vector<token_id>& out) const {
  if (rules_.by_bytes) {
    for (const char c : word) out.push_back(rules_.byte_tokens[static_cast<std::uint8_t>(c)]);
    return;
  }
  bool unknown_before = false;
  for (std::size_t at = 0; at < word.size();) {
    const auto text = word.substr(at, read_utf8(word, at).length);
    at += text.size();
    if (const auto id = words_.find(text); id >= 0) {
      out.push_back(id);
      unknown_before = false;
      continue;
    }
    const auto token = [&](char c) { return rules_.byte_tokens[static_cast<std::uint8_t>(c)]; };
    if (std::all_of(text.begin(), text.end(), [&](char c) { return token(c) >= 0; })) {
      for (const char c : text) out.push_back(token(c));
      unknown_before = false;
    } else if (rules_.unknown >= 0) {
      if (!unknown_before || !rules_.fuse_unknown) out.push_back(rules_.unknown);
      unknown_before = true;
    }
  }
}

void bpe_model::encode(std::string_view word, workspace& work, std::vector<token_id>& out) const {
  const auto hash = word_hash(word);
  if (const auto id = words_.find(word, hash); id >= 0) {
    out.push_back(id);
    return;
  }
  if (work.cache.repeat(word, hash, out)) return;
  const auto first = out.size();
  work.symbols.clear();
  first_symbols(word, work.symbols);
  merge_symbols(work.symbols, merges_, out);
  work.cache.remember(word, hash, first, out);
}

} // namespace godwit::gpu::model
