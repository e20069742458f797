#pragma once

#include <string>
#include <string_view>

/// Server-sent events (WHATWG HTML, section 9.2), as far as OpenAI's and Anthropic's streams use them.
namespace godwit::protocols::openai {

/// "data: ...\n\n"; every line of the payload becomes a data line.
[[nodiscard]] std::string sse_event(std::string_view payload);
/// "event: ...\ndata: ...\n\n"; the name is of one line.
[[nodiscard]] std::string sse_event(std::string_view name, std::string_view payload);
/// "data: [DONE]\n\n"
[[nodiscard]] std::string_view sse_done() noexcept;
/// A comment, which clients skip: keeps idle connections open.
[[nodiscard]] std::string_view sse_keep_alive() noexcept;

} // namespace godwit::protocols::openai
