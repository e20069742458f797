#pragma once

#include "openai/json_reader.hpp"

#include <godwit/protocols/openai/request.hpp>

#include <string_view>

/// vLLM's `use_beam_search`, and what cannot be had with it.
namespace godwit::protocols::openai {

/// After all else that both endpoints share has been read.
void parse_beams(json_reader& body, const request_limits& limits, common_request& into);
/// Fails where beams are searched for and the other field asks for something.
void refuse_beside_beams(const common_request& request, bool asks, std::string_view field);

} // namespace godwit::protocols::openai
