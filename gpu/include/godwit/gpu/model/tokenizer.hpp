#pragma once

#include <godwit/gpu/model/error.hpp>
#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/messages/ids.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// Text to token ids and back, as a Hugging Face tokenizer.json says.
/// Immutable after loading and thread-safe.
class tokenizer {
public:
  /// Reads tokenizer.json. Known: model BPE, byte-level (GPT-2, Llama 3, Qwen2, GPT-4o, Mistral Tekken) or by
  /// characters with byte fallback (Llama 2, Mistral); pre-tokenizers ByteLevel, Split (these models' patterns, or a
  /// literal), Digits, Metaspace; normalizers NFC, NFD, NFKC, NFKD, Replace, Prepend, Strip; decoders ByteLevel,
  /// Replace, ByteFallback, Metaspace, Fuse, Strip; TemplateProcessing; added tokens. Everything else is refused with a
  /// line that names it.
  [[nodiscard]] static protocols::expected<tokenizer, model_error>
  from_json(std::string_view json, const std::string& file = "tokenizer.json");

  /// Invalid UTF-8 in `text` counts as U+FFFD. `allow_special`: special tokens spelled out in the text ("<|im_end|>")
  /// become their ids, otherwise they are plain text (what users write must not open a new turn). Ids that the
  /// tokenizer puts around every text (begin of sequence) are not added: see prefix() and suffix().
  /// Time n log n in the bytes of `text`, whatever they are. Throws std::length_error for more than 1 GiB.
  [[nodiscard]] std::vector<protocols::token_id> encode(std::string_view text, bool allow_special) const;

  /// A part of a text, and whether special tokens count in it.
  struct fragment {
    std::string_view text;
    bool allow_special = false;
  };
  /// The ids of the fragments as one text: words, merges and a leading space go across the places where they meet, as
  /// when a chat template is filled in and encoded as a whole. A special token counts only where fragments that allow
  /// it hold all of it.
  [[nodiscard]] std::vector<protocols::token_id> encode(std::span<const fragment> fragments) const;

  /// Ids before and after a text by tokenizer.json's post-processor, or by add_bos_token and add_eos_token where a
  /// model directory's tokenizer is one of Llama's classes; often empty, or <|begin_of_text|> in front.
  [[nodiscard]] const std::vector<protocols::token_id>& prefix() const noexcept;
  [[nodiscard]] const std::vector<protocols::token_id>& suffix() const noexcept;

  /// UTF-8; bytes that are none become U+FFFD. Unknown ids give nothing. Where the decoder says so, a space in front of
  /// the whole goes away (see leading_strip()).
  [[nodiscard]] std::string decode(std::span<const protocols::token_id> ids, bool skip_special) const;
  /// The bytes of one token within a text; empty for an unknown id.
  [[nodiscard]] std::string_view bytes(protocols::token_id id) const noexcept;
  [[nodiscard]] bool is_special(protocols::token_id id) const noexcept;

  /// What decode() takes away from the beginning of a text: this character, so many times at most (0: nothing).
  struct strip {
    std::string_view character;
    std::uint32_t most = 0;
  };
  [[nodiscard]] strip leading_strip() const noexcept;

  /// One above the highest id.
  [[nodiscard]] std::uint32_t size() const noexcept;
  /// The token whose bytes are `text`; added tokens first.
  [[nodiscard]] std::optional<protocols::token_id> find(std::string_view text) const;

  struct parts; ///< private to gpu/model
  explicit tokenizer(std::unique_ptr<const parts> loaded);
  tokenizer(tokenizer&&) noexcept;
  tokenizer& operator=(tokenizer&&) noexcept;
  ~tokenizer();

private:
  std::unique_ptr<const parts> parts_;
};

/// Token ids to text as they come, in whole characters only.
///
/// Problem: a character may be spread over several tokens, and a client must not see half of it. So bytes that may
/// still become a character are held back (three at most). The pieces, put together, equal tokenizer::decode of all
/// ids, or, where the ids continue a text, that without the strip of a leading space.
class incremental_decoder {
public:
  enum class start : std::uint8_t {
    text,        ///< the ids are a text of their own
    continuation ///< the ids go on behind a prompt: a space in front belongs between the two
  };
  explicit incremental_decoder(std::shared_ptr<const tokenizer> tokens, bool skip_special = true,
                               start begins = start::text);
  /// The text that is certain now; often empty.
  [[nodiscard]] std::string feed(protocols::token_id id);
  [[nodiscard]] std::string feed(std::span<const protocols::token_id> ids);
  /// What was held back, as U+FFFD. Afterwards the decoder is as new.
  [[nodiscard]] std::string finish();

private:
  std::shared_ptr<const tokenizer> tokens_;
  bool skip_special_;
  std::uint32_t strip_max_;
  std::uint32_t strip_left_; ///< 0: the text has begun
  std::string held_;
};

} // namespace godwit::gpu::model
