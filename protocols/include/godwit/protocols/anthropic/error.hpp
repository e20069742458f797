#pragma once

#include <godwit/protocols/openai/error.hpp>

#include <string>
#include <string_view>

/// Anthropic's Messages API as godwit speaks it: the same requests, answers and errors as protocols/openai has, in
/// other words.
namespace godwit::protocols::anthropic {

/// How Anthropic's clients are told of an error of this status.
[[nodiscard]] std::string_view error_type(int status) noexcept;

/// {"type": "error", "error": {"type", "message"}, "request_id"}. There is no field for what is wrong, so the message
/// names it; of threads `details` has the code. `request_id`: empty: null.
[[nodiscard]] std::string error_object(const openai::api_error& error, std::string_view request_id = {});

} // namespace godwit::protocols::anthropic
