#pragma once

#include "openai/json_reader.hpp"

#include <godwit/protocols/openai/request.hpp>

namespace godwit::protocols::openai {

/// `tools`, `tool_choice`, `parallel_tool_calls`. A choice that has to be made becomes a schema of the answer.
void parse_tools(json_reader& body, const request_limits& limits, chat_request& into);

/// An assistant's `tool_calls`.
[[nodiscard]] std::vector<chat_tool_call> parse_tool_calls(json_reader& message, const request_limits& limits,
                                                           std::vector<std::string>& unknown);

} // namespace godwit::protocols::openai
