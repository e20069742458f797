#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace godwit::gpu::model::tests {

/// A vocabulary as byte-pair training makes it: symbols, then one token for each merge, in the order of their making.
struct trained_bpe {
  std::vector<std::string> tokens;                         ///< the alphabet, then what merges made; no token twice
  std::vector<std::pair<std::string, std::string>> merges; ///< in order of rank
};

/// Trains on words (text and how often it comes), each a sequence of UTF-8 characters: of all neighbours the most
/// frequent merge, again and again, until there are `merges_max` merges or nothing comes twice. Ties go by the
/// alphabet, so the same words give the same vocabulary.
[[nodiscard]] trained_bpe train_bpe(const std::map<std::string, std::uint64_t>& words, std::size_t merges_max,
                                    std::vector<std::string> alphabet = {});

/// All text files of this repository's docs/ and sources, up to `bytes_max`, in order of their names: English and code.
[[nodiscard]] std::string repository_text(std::size_t bytes_max);

} // namespace godwit::gpu::model::tests
