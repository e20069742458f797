#pragma once

#include <godwit/protocols/expected.hpp>
#include <godwit/protocols/openai/error.hpp>
#include <godwit/protocols/openai/request.hpp>

#include <string_view>

namespace godwit::protocols::anthropic {

/// A conversation in the words of /v1/messages.
struct messages_request : openai::chat_request {
  messages_request() { system_may_be_users = true; }
  bool tells_thoughts = true;   ///< false: only that something was thought (`thinking.display`)
  bool manages_context = false; ///< asks what became of the conversation: nothing
};

/// The body of POST /v1/messages.
[[nodiscard]] expected<messages_request, openai::api_error>
parse_messages(std::string_view body, const openai::request_defaults& defaults, const openai::request_limits& limits);
/// The body of POST /v1/messages/count_tokens: one of the other, which need not say how long the answer may be.
[[nodiscard]] expected<messages_request, openai::api_error> parse_count_tokens(std::string_view body,
                                                                               const openai::request_defaults& defaults,
                                                                               const openai::request_limits& limits);

} // namespace godwit::protocols::anthropic
