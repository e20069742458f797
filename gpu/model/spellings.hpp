#pragma once

#include "model/json_reader.hpp"
#include "model/merge_table.hpp"
#include "model/tokenizer_pipeline.hpp"
#include "model/vocabulary.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

inline constexpr std::int64_t token_ids_max = 1 << 22;
inline constexpr std::size_t token_bytes_max = 4096;

/// A token id from a file.
[[nodiscard]] protocols::token_id id_of(const json_reader& in, std::string_view field, const boost::json::value& value);

/// The bytes that a spelling in GPT-2's byte alphabet stands for; text outside the alphabet stands for itself.
[[nodiscard]] std::string bytes_of_spelling(std::string_view spelling);

/// The byte that a byte token's spelling ("<0x0A>") stands for.
[[nodiscard]] std::optional<char> byte_of_spelling(std::string_view spelling) noexcept;

/// What a token becomes in a text, by its spelling.
[[nodiscard]] std::string text_of_spelling(std::string_view spelling, const token_decoding& decoding);

/// The vocabulary of a BPE model by its spelling; merges are written in spellings too. Valid while the file's JSON is.
class spellings {
public:
  struct entry {
    protocols::token_id id;
    std::string_view spelling;
  };
  /// Checks every entry. Throws model_error.
  explicit spellings(const json_reader& model);

  [[nodiscard]] std::optional<protocols::token_id> find(std::string_view spelling) const;
  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }

private:
  json_reader vocab_;
  std::vector<entry> entries_;
};

/// Tokens of the 256 bytes. Byte-level: every byte that UTF-8 text can hold must have one, or text would be lost
/// without a word. Otherwise: those with a spelling like "<0x0A>", -1 for none.
[[nodiscard]] std::array<protocols::token_id, 256> read_byte_tokens(const json_reader& model, const spellings& vocab,
                                                                    bool byte_level);

struct read_merges_result {
  merge_table table;
  bool crosses_mark = false; ///< some merge puts the mark behind something else
};
/// Merges that make a special token are left out: plain text never becomes one.
[[nodiscard]] read_merges_result read_merges(const json_reader& model, const spellings& vocab,
                                             const std::vector<bool>& special, std::string_view mark);

} // namespace godwit::gpu::model
