#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// Byte-pair merges: which two neighbours become which token, and how early.
class merge_table {
public:
  struct merge {
    std::uint32_t rank = ~0U; ///< lower goes first; ~0: the two do not merge
    protocols::token_id into = -1;
  };

  explicit merge_table(std::size_t count);
  /// False where the pair is there already (the first one counts).
  bool add(protocols::token_id left, protocols::token_id right, merge what);
  [[nodiscard]] merge find(protocols::token_id left, protocols::token_id right) const noexcept;

private:
  struct slot {
    std::uint64_t key = ~std::uint64_t{0};
    merge what;
  };
  [[nodiscard]] std::size_t place(std::uint64_t key) const noexcept;
  std::vector<slot> slots_; ///< open addressing, at most half full, size a power of two
};

/// Byte-pair encoding of one word: again and again the neighbours of the lowest rank merge, the leftmost first.
/// Appends to `out`. Short words scan, long ones use a heap: n log n, so a megabyte without a space is no attack.
void merge_word(std::string_view word, const std::array<protocols::token_id, 256>& byte_tokens,
                const merge_table& merges, std::vector<protocols::token_id>& out);

} // namespace godwit::gpu::model
