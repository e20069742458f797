#pragma once

#include "model/merge_table.hpp"
#include "model/vocabulary.hpp"
#include "model/word_table.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// What a word's first symbols are, before anything merges.
struct bpe_rules {
  bool by_bytes = false; ///< every byte is a symbol (byte-level); otherwise every character
  /// By byte: its token, -1 where there is none. By character: the tokens for bytes of characters that are none.
  std::array<protocols::token_id, 256> byte_tokens{};
  protocols::token_id unknown = -1; ///< for what has no token at all; -1: it is left out
  bool fuse_unknown = false;        ///< one for several in a row
  bool ignore_merges = false;       ///< a word of the vocabulary is its token, whatever the merges say
};

/// The words that one text has had so far and their tokens: words come again and again. Bounded: a word that finds its
/// place taken takes it over.
class word_cache {
public:
  /// As many places as a text of `text_bytes` is worth.
  explicit word_cache(std::size_t text_bytes);
  /// True: the tokens of `word` have been appended once more.
  bool repeat(std::string_view word, std::uint64_t hash, std::vector<protocols::token_id>& out) const;
  /// The tokens of `word` are out[first, end).
  void remember(std::string_view word, std::uint64_t hash, std::size_t first,
                const std::vector<protocols::token_id>& out);

private:
  static constexpr std::size_t word_bytes_max = 22, tokens_max = 8; // a cache line together
  struct place {
    std::uint64_t hash = 0;
    std::uint8_t bytes = 0; ///< 0: free
    std::uint8_t count = 0;
    std::array<char, word_bytes_max> word;              // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::array<protocols::token_id, tokens_max> tokens; // NOLINT(cppcoreguidelines-pro-type-member-init)
  };
  std::vector<place> places_; ///< none, or a power of two
};

/// Byte-pair encoding of words. Immutable.
class bpe_model {
public:
  /// `words`: the vocabulary, in the form in which words are given to encode(); without tokens that plain text must
  /// not become.
  bpe_model(const bpe_rules& rules, merge_table merges, const std::vector<vocabulary::entry>& words);

  struct workspace {
    explicit workspace(std::size_t text_bytes) : cache(text_bytes) {}
    word_cache cache;
    std::vector<protocols::token_id> symbols;
  };
  /// Appends the tokens of `word` (valid UTF-8).
  void encode(std::string_view word, workspace& work, std::vector<protocols::token_id>& out) const;

private:
  void first_symbols(std::string_view word, std::vector<protocols::token_id>& out) const;

  bpe_rules rules_;
  merge_table merges_;
  word_table words_; ///< those that are one token whichever way they are encoded: no merging for them
};

} // namespace godwit::gpu::model
