#pragma once

#include "openai/json_reader.hpp"

/// Parameters of OpenAI's API and of vLLM that are known and not supported (yet).
namespace godwit::protocols::openai {

/// Fails on the first one that asks for anything: a value that means "as usual" passes.
void refuse_unsupported_common(json_reader& body);
void refuse_unsupported_completion(json_reader& body);
void refuse_unsupported_chat(json_reader& body);
void refuse_unsupported_message(json_reader& message);

} // namespace godwit::protocols::openai
