#include <godwit/gpu/model/tokenizer.hpp>

#include "model/text_encoder.hpp"
#include "model/tokenizer_json.hpp"
#include "model/tokenizer_parts.hpp"
#include "model/utf8.hpp"

#include <stdexcept>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t text_bytes_max = 1U << 30U;

} // namespace

tokenizer::tokenizer(std::unique_ptr<const parts> loaded) : parts_(std::move(loaded)) {}
tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;
tokenizer::~tokenizer() = default;

protocols::expected<tokenizer, model_error> tokenizer::from_json(std::string_view json, const std::string& file) {
  try {
    return tokenizer(read_tokenizer_json(json, file));
  } catch (const model_error& error) {
    return protocols::unexpected(error);
  } catch (const std::exception& error) {
    return protocols::unexpected(model_error(file, error.what()));
  }
}

std::vector<token_id> tokenizer::encode(std::string_view text, bool allow_special) const {
  const fragment whole{text, allow_special};
  return encode(std::span(&whole, 1));
}

std::vector<token_id> tokenizer::encode(std::span<const fragment> fragments) const {
  std::size_t bytes = 0;
  bool valid = true;
  for (const auto& one : fragments) {
    bytes += one.text.size();
    if (bytes > text_bytes_max) throw std::length_error("a text to tokenize is larger than 1 GiB");
    valid = valid && is_utf8(one.text);
  }
  std::string joined;
  std::string_view text;
  if (fragments.size() == 1 && valid) {
    text = fragments.front().text;
  } else {
    joined.reserve(bytes);
  }
  std::vector<added_token_finder::range> special;
  for (const auto& one : fragments) {
    const auto begin = joined.size();
    if (fragments.size() > 1 || !valid) append_valid(joined, one.text, true);
    const auto end = text.empty() ? joined.size() : text.size();
    if (!one.allow_special || begin == end) continue;
    if (!special.empty() && special.back().end == begin)
      special.back().end = end;
    else
      special.push_back({begin, end});
  }
  return text_encoder(*parts_).encode(text.empty() ? joined : text, special);
}

const std::vector<token_id>& tokenizer::prefix() const noexcept { return parts_->prefix; }
const std::vector<token_id>& tokenizer::suffix() const noexcept { return parts_->suffix; }

std::string tokenizer::decode(std::span<const token_id> ids, bool skip_special) const {
  std::string raw;
  for (const auto id : ids)
    if (!skip_special || !is_special(id)) raw += bytes(id);
  std::string_view text = raw;
  for (auto left = parts_->strip_max; left > 0 && text.starts_with(parts_->strip); --left)
    text.remove_prefix(parts_->strip.size());
  std::string out;
  out.reserve(text.size());
  append_valid(out, text, true);
  return out;
}

std::string_view tokenizer::bytes(token_id id) const noexcept { return parts_->words.bytes(id); }

bool tokenizer::is_special(token_id id) const noexcept {
  return id >= 0 && static_cast<std::size_t>(id) < parts_->special.size() &&
         parts_->special[static_cast<std::size_t>(id)];
}

tokenizer::strip tokenizer::leading_strip() const noexcept { return {parts_->strip, parts_->strip_max}; }

std::uint32_t tokenizer::size() const noexcept { return parts_->words.size(); }

std::optional<token_id> tokenizer::find(std::string_view text) const { return parts_->words.find(text); }

} // namespace godwit::gpu::model
