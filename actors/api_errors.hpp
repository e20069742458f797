#pragma once

#include <godwit/protocols/openai/error.hpp>
#include <godwit/transport/http/exchange.hpp>

#include <cstdint>
#include <string>

/// Errors as answers, in the words that whoever asked can read.
namespace godwit::actors {

enum class api : std::uint8_t { openai, anthropic };

/// Whose clients ask for this: the path says it, and where both have one the version that Anthropic's always name.
[[nodiscard]] api api_of(const transport::http::request& head);

/// Names an answer, or the request that got none, where its client looks for it.
void name_answer(transport::http::headers& fields, api whose, const std::string& id);

/// `id`: of the answer; empty: it has none.
[[nodiscard]] transport::http::response to_response(const protocols::openai::api_error& error, api whose = api::openai,
                                                    const std::string& id = {});
/// The same with a body that somebody else has made.
[[nodiscard]] transport::http::response to_response(const protocols::openai::api_error& error, std::string body);

} // namespace godwit::actors
