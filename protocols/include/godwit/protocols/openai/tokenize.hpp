#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/request.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// vLLM's POST /tokenize and /detokenize: what a text or a conversation is in tokens, and back.
namespace godwit::protocols::openai {

struct tokenize_request {
  std::string model;                ///< empty: the served one
  std::string prompt;               ///< without `chat`
  std::optional<chat_request> chat; ///< the body has `messages`
  bool add_special_tokens = true;   ///< of a text
  bool with_strings = false;        ///< return_token_strs
};
[[nodiscard]] expected<tokenize_request, api_error>
parse_tokenize(std::string_view body, const request_defaults& defaults, const request_limits& limits);
/// {"count", "max_model_len", "tokens", "token_strs"}; `strings` empty: null.
[[nodiscard]] std::string tokenize_object(const std::vector<token_id>& tokens, std::uint32_t context_length,
                                          const std::optional<std::vector<std::string>>& strings);

struct detokenize_request {
  std::string model;
  std::vector<token_id> tokens;
};
[[nodiscard]] expected<detokenize_request, api_error> parse_detokenize(std::string_view body,
                                                                       const request_limits& limits);
/// {"prompt"}
[[nodiscard]] std::string detokenize_object(std::string_view text);

} // namespace godwit::protocols::openai
