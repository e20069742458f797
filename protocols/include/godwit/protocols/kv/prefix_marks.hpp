#pragma once

#include <godwit/protocols/kv/block_hash.hpp>
#include <godwit/protocols/messages/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace godwit::protocols {

/// Tokens from one mark to the next.
inline constexpr std::uint32_t tokens_per_mark = 4 * tokens_per_block;
/// Marks of one prompt: beginnings that agree for longer than this are as good as equal to who chooses an instance.
inline constexpr std::size_t prefix_marks_max = 128;

/// The beginnings of a prompt by name, for who chooses its instance and does not see the prompt: element i is the hash
/// of its first `(i + 1) * tokens_per_mark` tokens, as prefix caching names the last of their blocks. At most
/// `prefix_marks_max`, and none of the whole prompt: its last token is always computed.
[[nodiscard]] std::vector<block_hash> prefix_marks(std::span<const token_id> prompt, std::uint64_t salt);

} // namespace godwit::protocols
