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

/// Text to token ids and back: byte-level BPE as in a Hugging Face tokenizer.json.
/// Immutable after loading and thread-safe.
class tokenizer {
public:
  /// Reads tokenizer.json. Known: model BPE with the byte alphabet; pre-tokenizers ByteLevel (GPT-2's pattern) and
  /// Split with the patterns of GPT-2, Llama 3 and Qwen2; added tokens; NFC. Everything else is refused with a line
  /// that names it.
  [[nodiscard]] static protocols::expected<tokenizer, model_error>
  from_json(std::string_view json, const std::string& file = "tokenizer.json");

  /// Invalid UTF-8 in `text` counts as U+FFFD. `allow_special`: special tokens spelled out in the text ("<|im_end|>")
  /// become their ids, otherwise they are plain text (what users write must not open a new turn). Ids that the
  /// tokenizer puts around every text (begin of sequence) are not added: see prefix() and suffix().
  [[nodiscard]] std::vector<protocols::token_id> encode(std::string_view text, bool allow_special) const;
  /// Ids before and after a text by tokenizer.json's post-processor; often empty, or <|begin_of_text|> in front.
  [[nodiscard]] const std::vector<protocols::token_id>& prefix() const noexcept;
  [[nodiscard]] const std::vector<protocols::token_id>& suffix() const noexcept;

  /// UTF-8; bytes that are none become U+FFFD. Unknown ids give nothing.
  [[nodiscard]] std::string decode(std::span<const protocols::token_id> ids, bool skip_special) const;
  /// The bytes of one token; empty for an unknown id.
  [[nodiscard]] std::string_view bytes(protocols::token_id id) const noexcept;
  [[nodiscard]] bool is_special(protocols::token_id id) const noexcept;

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
/// ids.
class incremental_decoder {
public:
  explicit incremental_decoder(std::shared_ptr<const tokenizer> tokens, bool skip_special = true);
  /// The text that is certain now; often empty.
  [[nodiscard]] std::string feed(protocols::token_id id);
  [[nodiscard]] std::string feed(std::span<const protocols::token_id> ids);
  /// What was held back, as U+FFFD. Afterwards the decoder is as new.
  [[nodiscard]] std::string finish();

private:
  std::shared_ptr<const tokenizer> tokens_;
  bool skip_special_;
  std::string held_;
};

} // namespace godwit::gpu::model
