#include "model/added_tokens.hpp"

#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

namespace godwit::gpu::model {

namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return (std::uint64_t{node} << 8U) | static_cast<std::uint8_t>(byte);
}

/// Whether a letter, digit or underscore stands before or at a place.
bool word_before(std::string_view text, std::size_t at) {
  if (at == 0) return false;
  auto start = at - 1;
  while (start > 0 && (static_cast<std::uint8_t>(text[start]) & 0xC0U) == 0x80U) --start;
  return unicode::all_traits().of(read_utf8(text, start).code).word();
}
bool word_at(std::string_view text, std::size_t at) {
  return at < text.size() && unicode::all_traits().of(read_utf8(text, at).code).word();
}

} // namespace

added_token_finder::added_token_finder(const std::vector<added_token>& tokens) : tokens_(tokens), nodes_(1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::uint32_t at = 0;
    for (const char byte : tokens_[i].content) {
      const auto [found, inserted] = edges_.try_emplace(edge(at, byte), static_cast<std::uint32_t>(nodes_.size()));
      if (inserted) nodes_.emplace_back();
      at = found->second;
    }
    if (at == 0) continue; // an empty token would match everywhere
    starts_[static_cast<std::uint8_t>(tokens_[i].content.front())] = true;
    if (nodes_[at].token < 0) nodes_[at].token = static_cast<std::int32_t>(i);
  }
}

const added_token* added_token_finder::match(std::string_view text, std::size_t at, std::size_t special_end) const {
  const added_token* longest = nullptr;
  std::uint32_t node_at = 0;
  for (auto i = at; i < text.size(); ++i) {
    const auto next = edges_.find(edge(node_at, text[i]));
    if (next == edges_.end()) break;
    node_at = next->second;
    if (const auto found = nodes_[node_at].token; found >= 0) {
      const auto& token = tokens_[static_cast<std::size_t>(found)];
      if (!token.special || i < special_end) longest = &token;
    }
  }
  return longest;
}

std::vector<added_token_finder::piece> added_token_finder::cut(std::string_view text,
                                                               std::span<const range> special) const {
  std::vector<piece> pieces;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!starts_[static_cast<std::uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    while (!special.empty() && special.front().end <= at) special = special.subspan(1);
    const bool within = !special.empty() && special.front().begin <= at;
    const auto* token = match(text, at, within ? special.front().end : 0);
    if (!token) {
      ++at;
      continue;
    }
    auto end = at + token->content.size();
    if (token->single_word && (word_before(text, at) || word_at(text, end))) {
      at = end; // nothing else is sought inside, as in the tokenizers library
      continue;
    }
    const auto begin = token->lstrip ? space_begin(text, done, at) : at;
    if (token->rstrip) end = space_end(text, end);
    if (begin > done) pieces.push_back({text.substr(done, begin - done), nullptr});
    pieces.push_back({text.substr(begin, end - begin), token});
    at = done = end;
  }
  if (done < text.size()) pieces.push_back({text.substr(done), nullptr});
  return pieces;
}

} // namespace godwit::gpu::model
