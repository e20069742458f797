#pragma once

#include "model/text_normalizer.hpp"

#include <godwit/protocols/messages/ids.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace godwit::gpu::model {

/// A token that is matched in the text itself, before it is cut into words.
struct added_token {
  protocols::token_id id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;  ///< matched in the normalized text, after those that are not
  bool lstrip = false;      ///< takes white space on its left with it
  bool rstrip = false;      ///< on its right
  bool single_word = false; ///< matched only where no letter, digit or underscore touches it
};

/// Finds added tokens: the leftmost match, of those the longest.
class added_token_finder {
public:
  explicit added_token_finder(const std::vector<added_token>& tokens);

  struct piece {
    std::string_view text;
    const added_token* token = nullptr; ///< null: text between tokens
  };
  /// Bytes of a text in which special tokens count; the others' spelling is plain text there.
  using range = byte_range;
  /// Cuts `text`. Special tokens count where they lie within one of `special` (in order, apart).
  [[nodiscard]] std::vector<piece> cut(std::string_view text, std::span<const range> special) const;

private:
  [[nodiscard]] const added_token* match(std::string_view text, std::size_t at, std::size_t special_end) const;

  struct node {
    std::int32_t token = -1;
  };
  std::vector<added_token> tokens_;
  std::vector<node> nodes_;                                ///< a trie over bytes; node 0 is the root
  std::unordered_map<std::uint64_t, std::uint32_t> edges_; ///< (node, byte) -> node
  std::array<bool, 256> starts_{};
};

} // namespace godwit::gpu::model
