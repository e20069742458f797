#pragma once

#include "openai/json_reader.hpp"

#include <godwit/protocols/openai/request.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace godwit::protocols::openai {

inline constexpr std::size_t name_bytes_max = 64; ///< of a function or a schema, as OpenAI has it

/// Whose words a body has: what chats nest (`"function": {...}`, `"json_schema": {...}`) is flat in /v1/responses, and
/// much has other names in Anthropic's /v1/messages.
enum class dialect : std::uint8_t { chat, responses, messages };

/// Fields that nobody asked for are unknown ones of the request.
void add_unasked(const json_reader& from, common_request& into);
/// Reads what all endpoints share into `into`: all but how long an answer may be, and what it has to be like.
void parse_shared(json_reader& body, dialect words, const request_defaults& defaults, const request_limits& limits,
                  common_request& into);
/// How long an answer may be, which the client has said in `field`, or has not; and `min_tokens`.
void parse_length(json_reader& body, std::string_view field, std::optional<std::int64_t> tokens, common_request& into);
/// Reads what /v1/completions and /v1/chat/completions share.
void parse_common(json_reader& body, const request_defaults& defaults, const request_limits& limits,
                  common_request& into);

/// The bounds of what is asked for in numbers of tokens.
inline constexpr auto tokens_limit = std::int64_t{std::numeric_limits<std::int32_t>::max()};

/// Token ids of an array. `path` names it.
[[nodiscard]] std::vector<token_id> parse_tokens(const boost::json::array& from, const std::string& path,
                                                 std::uint32_t vocabulary);

} // namespace godwit::protocols::openai
