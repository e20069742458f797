#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <span>

namespace godwit::protocols {

/// Names the KV of one full block and of everything before it: a function of the parent's hash, this block's tokens and
/// the salt. Equal on every instance and every machine, so that instances can tell each other what they hold. Not
/// collision-proof: whoever shares KV by it compares the tokens too (block_ledger does).
using block_hash = std::uint64_t;

/// The parent of a first block.
inline constexpr block_hash root_hash = 0;

[[nodiscard]] block_hash hash_block(block_hash parent, std::span<const token_id> tokens, std::uint64_t salt) noexcept;

/// How a ledger hashes; a test plants a bad one to see that collisions never share wrong KV.
using block_hash_function = block_hash (*)(block_hash, std::span<const token_id>, std::uint64_t) noexcept;

/// Blocks that hold this many tokens.
[[nodiscard]] constexpr std::uint32_t blocks_for(std::uint64_t tokens) noexcept {
  return static_cast<std::uint32_t>((tokens + tokens_per_block - 1) / tokens_per_block);
}

} // namespace godwit::protocols
