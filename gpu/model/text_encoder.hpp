#pragma once

#include "model/tokenizer_parts.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::gpu::model {

/// One text on its way to ids: added tokens are cut out, the rest is normalized, cut into words, and those are merged.
class text_encoder {
public:
  explicit text_encoder(const tokenizer::parts& parts) : parts_(parts) {}
  /// `text` is valid UTF-8; special tokens count within `special`.
  [[nodiscard]] std::vector<protocols::token_id> encode(std::string_view text,
                                                        std::span<const added_token_finder::range> special);

private:
  using ranges = std::vector<added_token_finder::range>;
  /// What of `special` lies in [begin, end) of the text, counted from `begin`. Drops from `special` what ends before.
  [[nodiscard]] static ranges within(std::span<const added_token_finder::range>& special, std::size_t begin,
                                     std::size_t end);
  /// `first`: the text begins here.
  void plain(std::string_view piece, bool first, bpe_model::workspace& work);
  void word(std::string_view text, bpe_model::workspace& work);

  const tokenizer::parts& parts_;
  std::vector<protocols::token_id> out_;
  std::string normalized_, spaced_;
  std::vector<std::string_view> words_, before_;
};

} // namespace godwit::gpu::model
