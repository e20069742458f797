#include "model/added_tokens.hpp"

#include "model/unicode/classes.hpp"
#include "model/utf8.hpp"

namespace godwit::gpu::model {

namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return (std::uint64_t{node} << 8U) | static_cast<std::uint8_t>(byte);
}

bool is_space(char32_t code) {
  const auto kind = unicode::class_of(code);
  return kind == unicode::char_class::space || kind == unicode::char_class::newline;
}

/// Where the white space that ends at `end` begins, not before `least`.
std::size_t space_begin(std::string_view text, std::size_t least, std::size_t end) {
  while (end > least) {
    auto start = end - 1;
    while (start > least && (static_cast<std::uint8_t>(text[start]) & 0xC0U) == 0x80U) --start;
    if (!is_space(read_utf8(text, start).code)) break;
    end = start;
  }
  return end;
}

std::size_t space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const auto character = read_utf8(text, begin);
    if (!is_space(character.code)) break;
    begin += character.length;
  }
  return begin;
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

const added_token* added_token_finder::match(std::string_view text, std::size_t at, bool allow_special) const {
  const added_token* longest = nullptr;
  std::uint32_t node_at = 0;
  for (auto i = at; i < text.size(); ++i) {
    const auto next = edges_.find(edge(node_at, text[i]));
    if (next == edges_.end()) break;
    node_at = next->second;
    if (const auto found = nodes_[node_at].token; found >= 0) {
      const auto& token = tokens_[static_cast<std::size_t>(found)];
      if (allow_special || !token.special) longest = &token;
    }
  }
  return longest;
}

std::vector<added_token_finder::piece> added_token_finder::cut(std::string_view text, bool allow_special) const {
  std::vector<piece> pieces;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto* token = starts_[static_cast<std::uint8_t>(text[at])] ? match(text, at, allow_special) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    const auto begin = token->lstrip ? space_begin(text, done, at) : at;
    auto end = at + token->content.size();
    if (token->rstrip) end = space_end(text, end);
    if (begin > done) pieces.push_back({text.substr(done, begin - done), nullptr});
    pieces.push_back({text.substr(begin, end - begin), token});
    at = done = end;
  }
  if (done < text.size()) pieces.push_back({text.substr(done), nullptr});
  return pieces;
}

} // namespace godwit::gpu::model
