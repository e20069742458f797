#include "model/text_encoder.hpp"

#include <algorithm>

namespace godwit::gpu::model {

using protocols::token_id;

std::vector<token_id> text_encoder::encode(std::string_view text, std::span<const added_token_finder::range> special) {
  out_.reserve(text.size() / 3 + 8);
  bpe_model::workspace work(text.size());
  auto left = special; // pieces and ranges come in order
  for (const auto& raw : parts_.added_raw.cut(text, special)) {
    if (raw.token) {
      out_.push_back(raw.token->id);
      continue;
    }
    const auto begin = static_cast<std::size_t>(raw.text.data() - text.data());
    auto counts = within(left, begin, begin + raw.text.size());
    const auto normal = parts_.normalizer.apply(raw.text, normalized_, counts);
    for (const auto& piece : parts_.added_normalized.cut(normal, counts)) {
      if (piece.token)
        out_.push_back(piece.token->id);
      else
        plain(piece.text, begin == 0 && piece.text.data() == normal.data(), work);
    }
  }
  return std::move(out_);
}

text_encoder::ranges text_encoder::within(std::span<const added_token_finder::range>& special, std::size_t begin,
                                          std::size_t end) {
  while (!special.empty() && special.front().end <= begin) special = special.subspan(1);
  ranges out;
  for (const auto& one : special) {
    if (one.begin >= end) break;
    out.push_back({std::max(one.begin, begin) - begin, std::min(one.end, end) - begin});
  }
  return out;
}

void text_encoder::plain(std::string_view piece, bool first, bpe_model::workspace& work) {
  if (parts_.prefix_space && piece.front() != ' ') {
    spaced_.assign(" ").append(piece);
    piece = spaced_;
  }
  if (const auto& meta = parts_.metaspace) {
    const bool prepend =
        meta->scheme == metaspace_step::prepend::always || (meta->scheme == metaspace_step::prepend::first && first);
    spaced_.clear();
    spaced_.reserve(piece.size() + piece.size() / 2 + meta->replacement.size());
    if (prepend && piece.front() != ' ' && !piece.starts_with(meta->replacement)) spaced_ += meta->replacement;
    append_replaced(spaced_, piece, " ", meta->replacement);
    piece = spaced_;
  }
  if (parts_.splits.empty()) return word(piece, work);
  if (parts_.splits.size() == 1 && parts_.splits.front().literal.empty()) {
    const auto pattern = parts_.splits.front().pattern;
    for (std::size_t at = 0; at < piece.size();) {
      const auto end = word_end(piece, at, pattern);
      word(piece.substr(at, end - at), work);
      at = end;
    }
    return;
  }
  words_.assign(1, piece);
  for (const auto& step : parts_.splits) {
    std::swap(before_, words_);
    words_.clear();
    for (const auto one : before_) step.cut(one, words_);
  }
  for (const auto one : words_) word(one, work);
}

void text_encoder::word(std::string_view text, bpe_model::workspace& work) {
  const std::string_view mark = parts_.word_mark;
  if (mark.empty()) return parts_.model.encode(text, work, out_);
  // Words begin at runs of the mark.
  for (std::size_t at = 0; at < text.size();) {
    auto end = at;
    while (text.substr(end).starts_with(mark)) end += mark.size();
    end = std::min(text.find(mark, end), text.size());
    parts_.model.encode(text.substr(at, end - at), work, out_);
    at = end;
  }
}

} // namespace godwit::gpu::model
