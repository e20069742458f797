#pragma once

#include "openai/json_reader.hpp"

#include <godwit/protocols/openai/request.hpp>

/// Parameters of OpenAI's and Anthropic's APIs and of vLLM that are known and not supported (yet).
namespace godwit::protocols::openai {

/// Fails on the first one that asks for anything, or lists all such in `unknown` (request_limits::lists_unsupported): a
/// value that means "as usual" passes.
void refuse_unsupported_everywhere(json_reader& body, const request_limits& limits, common_request& into);
/// Of a request that searches for no beams.
void refuse_unsupported_without_beams(json_reader& body, const request_limits& limits, common_request& into);
void refuse_unsupported_completion(json_reader& body, const request_limits& limits, common_request& into);
void refuse_unsupported_chat(json_reader& body, const request_limits& limits, common_request& into);
void refuse_unsupported_message(json_reader& message, const request_limits& limits, common_request& into);
void refuse_unsupported_responses(json_reader& body, const request_limits& limits, common_request& into);
/// Of a body of /v1/messages, and of its `output_config`.
void refuse_unsupported_messages(json_reader& body, const request_limits& limits, common_request& into);
void refuse_unsupported_output_config(json_reader& config, const request_limits& limits, common_request& into);
/// One that asks for something, by its full name. It is refused with `message`; empty: with the usual one.
void refuse_unsupported(std::string path, std::string message, const request_limits& limits, common_request& into);

} // namespace godwit::protocols::openai
