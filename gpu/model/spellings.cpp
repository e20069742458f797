#include "model/spellings.hpp"

#include "model/byte_alphabet.hpp"
#include "model/utf8.hpp"

#include <boost/json/array.hpp>

namespace godwit::gpu::model {

using protocols::token_id;

namespace {

constexpr std::size_t merges_max = 1U << 22U;

std::string spelling_of_byte(unsigned byte, bool byte_level) {
  std::string text;
  if (byte_level) {
    append_utf8(text, byte_alphabet::characters[byte]);
    return text;
  }
  constexpr auto digits = "0123456789ABCDEF";
  return (((text += "<0x") += digits[byte >> 4U]) += digits[byte & 15U]) += '>';
}

std::optional<unsigned> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

/// "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> pair_of(const json_reader& model, const boost::json::value& value) {
  if (const auto* text = value.if_string()) {
    const std::string_view both(text->data(), text->size());
    const auto space = both.find(' ');
    if (space != std::string_view::npos && both.find(' ', space + 1) == std::string_view::npos)
      return {both.substr(0, space), both.substr(space + 1)};
  } else if (const auto* array = value.if_array(); array && array->size() == 2) {
    const auto* left = (*array)[0].if_string();
    const auto* right = (*array)[1].if_string();
    if (left && right) return {{left->data(), left->size()}, {right->data(), right->size()}};
  }
  model.fail("merges", "must hold \"a b\" or [\"a\", \"b\"]");
}

} // namespace

token_id id_of(const json_reader& in, std::string_view field, const boost::json::value& value) {
  const auto id = integer_of(value);
  if (!id || *id < 0 || *id >= token_ids_max)
    in.fail(field, "token ids must be integers from 0 to " + std::to_string(token_ids_max - 1));
  return static_cast<token_id>(*id);
}

std::string bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const auto character = read_utf8(spelling, at);
    const auto byte = byte_alphabet::byte_of(character.code);
    if (!byte) return std::string(spelling);
    bytes += *byte;
    at += character.length;
  }
  return bytes;
}

std::optional<char> byte_of_spelling(std::string_view spelling) noexcept {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') return std::nullopt;
  const auto high = hex_digit(spelling[3]);
  const auto low = hex_digit(spelling[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(static_cast<std::uint8_t>(*high * 16 + *low));
}

std::string text_of_spelling(std::string_view spelling, const token_decoding& decoding) {
  if (decoding.byte_level) return bytes_of_spelling(spelling);
  std::string text(spelling);
  for (const auto& [from, to] : decoding.replacements) {
    std::string next;
    append_replaced(next, text, from, to);
    text.swap(next);
  }
  if (decoding.byte_fallback)
    if (const auto byte = byte_of_spelling(text)) return std::string(1, *byte);
  return text;
}

spellings::spellings(const json_reader& model) : vocab_(model.required_object("vocab")) {
  std::vector<bool> taken;
  entries_.reserve(vocab_.fields().size());
  for (const auto& field : vocab_.fields()) {
    const std::string_view spelling(field.key().data(), field.key().size());
    const auto id = integer_of(field.value()); // the error's words cost too much to put together for every entry
    if (!id || *id < 0 || *id >= token_ids_max) (void)id_of(vocab_, in_quotes(spelling), field.value());
    if (spelling.size() > token_bytes_max)
      model.fail("vocab", "has a token of more than " + std::to_string(token_bytes_max) + " bytes");
    const auto place = static_cast<std::size_t>(*id);
    if (taken.size() <= place) taken.resize(place + 1);
    if (taken[place]) model.fail("vocab", "gives id " + std::to_string(place) + " twice");
    taken[place] = true;
    entries_.push_back({static_cast<token_id>(*id), spelling});
  }
}

std::optional<token_id> spellings::find(std::string_view spelling) const {
  const auto* value = vocab_.find(spelling);
  return value ? std::optional(static_cast<token_id>(*integer_of(*value))) : std::nullopt;
}

std::array<token_id, 256> read_byte_tokens(const json_reader& model, const spellings& vocab, bool byte_level) {
  std::array<token_id, 256> tokens{};
  for (unsigned byte = 0; byte < tokens.size(); ++byte) {
    const auto id = vocab.find(spelling_of_byte(byte, byte_level));
    const bool in_utf8 = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    if (byte_level && !id && in_utf8)
      model.fail("vocab", "has no token for byte " + std::to_string(byte) + "; is it byte-level?");
    tokens[byte] = id.value_or(-1);
  }
  return tokens;
}

read_merges_result read_merges(const json_reader& model, const spellings& vocab, const std::vector<bool>& special,
                               std::string_view mark) {
  const auto* merges = model.array("merges");
  if (!merges) model.fail("merges", "is missing");
  if (merges->size() > merges_max) model.fail("merges", "has more than " + std::to_string(merges_max) + " entries");
  read_merges_result out{merge_table(merges->size()), false};
  std::string whole;
  std::uint32_t rank = 0;
  for (const auto& value : *merges) {
    const auto [left, right] = pair_of(model, value);
    const auto left_id = vocab.find(left);
    const auto right_id = vocab.find(right);
    whole.assign(left).append(right);
    const auto into = vocab.find(whole);
    if (!left_id || !right_id || !into)
      model.fail("merges",
                 in_quotes(whole) + " (entry " + std::to_string(rank) + ") joins tokens that are not all in vocab");
    if (!special[static_cast<std::size_t>(*into)]) out.table.add(*left_id, *right_id, {rank, *into});
    if (right.starts_with(mark) && !left.ends_with(mark)) out.crosses_mark = true;
    ++rank;
  }
  return out;
}

} // namespace godwit::gpu::model
