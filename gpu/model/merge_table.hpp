#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
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
  /// Of a pair that comes twice the last counts, as in the tokenizers library.
  void add(protocols::token_id left, protocols::token_id right, merge what);
  [[nodiscard]] merge find(protocols::token_id left, protocols::token_id right) const noexcept {
    const auto key = key_of(left, right);
    for (auto at = place(key);; at = (at + 1) & mask_) {
      const auto& one = slots_[at];
      if (one.key == key) return one.what;
      if (one.key == free_key) return {};
    }
  }

private:
  static constexpr std::uint64_t free_key = ~std::uint64_t{0};
  struct slot {
    std::uint64_t key = free_key;
    merge what;
  };
  static std::uint64_t key_of(protocols::token_id left, protocols::token_id right) noexcept {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t place(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_);
  }

  std::vector<slot> slots_; ///< open addressing, at most half full, size a power of two
  std::size_t mask_;
  unsigned shift_;
};

/// Byte-pair encoding: again and again the neighbours of the lowest rank merge, the leftmost first. Appends to `out`.
/// Few symbols are scanned, many go through a heap: n log n, so a megabyte without a space is no attack. More than
/// 2^31 symbols are never given.
void merge_symbols(std::span<const protocols::token_id> symbols, const merge_table& merges,
                   std::vector<protocols::token_id>& out);

} // namespace godwit::gpu::model
