#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Writing JSON by hand, for objects of fixed shape on the path of every token.
namespace godwit::protocols::openai {

/// Appends a JSON string literal. Any bytes go in: what is not UTF-8 becomes U+FFFD, so that the output always parses.
void append_json_string(std::string& out, std::string_view text);
[[nodiscard]] std::string json_string(std::string_view text);
/// Where it is no well-formed UTF-8 any more; its size where all of it is.
[[nodiscard]] std::size_t first_not_utf8(std::string_view text) noexcept;
/// Appends a number; what JSON cannot say becomes a large finite one (-9999.0 for -inf and NaN, as vLLM does for
/// logprobs).
void append_json_number(std::string& out, float value);

} // namespace godwit::protocols::openai
