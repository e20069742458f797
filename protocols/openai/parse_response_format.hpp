#pragma once

#include "openai/json_reader.hpp"

#include <godwit/protocols/openai/request.hpp>

namespace godwit::protocols::openai {

/// `response_format`, and vLLM's `structured_outputs`, `guided_json`, `guided_choice` and `guided_regex`: at most one
/// of them may ask for something. The schema is compiled to see that it can be followed; what is wrong with it is a 400
/// that names the place. To be called when the stops are known.
void parse_response_format(json_reader& body, const request_limits& limits, common_request& into);

/// The same of a body of /v1/responses, which has `text.format` for `response_format`.
void parse_text_format(json_reader& body, const request_limits& limits, common_request& into);

/// The same of a body of /v1/messages: `output_config.format`, and `output_format`, its older name.
void parse_output_config(json_reader& body, const request_limits& limits, common_request& into);

} // namespace godwit::protocols::openai
