#pragma once

#include "openai/json_reader.hpp"

#include <godwit/protocols/openai/request.hpp>

namespace godwit::protocols::openai {

inline constexpr std::size_t name_bytes_max = 64; ///< of a function or a schema, as OpenAI has it

/// Reads what both endpoints share into `into`.
void parse_common(json_reader& body, const request_defaults& defaults, const request_limits& limits,
                  common_request& into);

/// Token ids of an array. `path` names it.
[[nodiscard]] std::vector<token_id> parse_tokens(const boost::json::array& from, const std::string& path,
                                                 std::uint32_t vocabulary);

} // namespace godwit::protocols::openai
