#pragma once

#include <godwit/protocols/messages/ids.hpp>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// A hash of a word, fast for short ones. Where a table is filled from a file, its keys are known before any client's
/// text is looked up, so nobody can make its chains longer.
[[nodiscard]] inline std::uint64_t word_hash(std::string_view word) noexcept {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;
  const auto mix = [](std::uint64_t value) { return (value ^ (value >> 29U)) * 0xBF58476D1CE4E5B9U; };
  const auto* at = word.data();
  auto left = word.size();
  std::uint64_t hash = left * odd;
  std::uint64_t part = 0;
  for (; left >= 8; left -= 8, at += 8) {
    std::memcpy(&part, at, 8);
    hash = mix(hash ^ part) + odd;
  }
  part = 0;
  if (left >= 4) {
    std::uint32_t head = 0, tail = 0;
    std::memcpy(&head, at, 4);
    std::memcpy(&tail, at + left - 4, 4);
    part = (std::uint64_t{head} << 32U) | tail;
  } else if (left > 0) {
    const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<std::uint8_t>(at[i])}; };
    part = (byte(0) << 16U) | (byte(left / 2) << 8U) | byte(left - 1);
  }
  hash = mix(hash ^ part);
  return hash ^ (hash >> 32U);
}

/// Words to token ids, in two reads of memory. Filled once, then immutable.
class word_table {
public:
  /// Room for `words` of `bytes` together.
  word_table(std::size_t words, std::size_t bytes);
  /// The first to come stays. False where the word is there already, or the room is used up.
  bool add(std::string_view word, protocols::token_id id);
  /// -1: not there.
  [[nodiscard]] protocols::token_id find(std::string_view word, std::uint64_t hash) const noexcept {
    for (auto at = static_cast<std::size_t>(hash) & mask_;; at = (at + 1) & mask_) {
      const auto& one = slots_[at];
      if (one.id < 0) return -1;
      if (one.check == check_of(hash) && one.length == word.size() &&
          std::memcmp(text_.data() + one.offset, word.data(), word.size()) == 0)
        return one.id;
    }
  }
  [[nodiscard]] protocols::token_id find(std::string_view word) const noexcept { return find(word, word_hash(word)); }

private:
  struct slot {
    std::uint32_t check = 0;
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    protocols::token_id id = -1;
  };
  static std::uint32_t check_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32U); }

  std::vector<slot> slots_; ///< open addressing, at most half full, size a power of two
  std::size_t mask_;
  std::size_t room_;
  std::string text_;
};

} // namespace godwit::gpu::model
