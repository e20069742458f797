#include <godwit/protocols/kv/prefix_marks.hpp>

#include <algorithm>

namespace godwit::protocols {

std::vector<block_hash> prefix_marks(std::span<const token_id> prompt, std::uint64_t salt) {
  const auto reused = prompt.empty() ? 0 : prompt.size() - 1;
  std::vector<block_hash> marks(std::min(reused / tokens_per_mark, prefix_marks_max));
  auto hash = root_hash;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    for (std::size_t at = i * tokens_per_mark; at < (i + 1) * tokens_per_mark; at += tokens_per_block)
      hash = hash_block(hash, prompt.subspan(at, tokens_per_block), salt);
    marks[i] = hash;
  }
  return marks;
}

} // namespace godwit::protocols
