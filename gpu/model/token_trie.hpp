#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace godwit::gpu::model {

/// The texts of a vocabulary as a tree of bytes, in the order of a walk through it: a node's subtree is what follows it
/// up to `end`. Tokens stand in the order of their nodes, so a subtree's tokens stand together.
struct token_trie {
  struct node {
    std::uint32_t end = 0;         ///< one after the last node of the subtree
    std::uint32_t first_token = 0; ///< in `tokens`; the node's own end where the next node's begin
    std::uint16_t depth = 0;
    std::uint8_t byte = 0;
  };
  std::vector<node> nodes; ///< the root first; one more at the end, for first_token
  std::vector<protocols::token_id> tokens;
  std::uint16_t depth_max = 0;

  /// Tokens without a text, and those of more than `bytes_max` bytes, are left out.
  static token_trie of(const std::vector<std::string>& texts);
  static constexpr std::size_t bytes_max = 1024;
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(nodes.size() - 1); }
};

} // namespace godwit::gpu::model
