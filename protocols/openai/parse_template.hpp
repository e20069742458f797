#pragma once

#include "openai/json_reader.hpp"
#include "openai/parse_tools.hpp"

#include <godwit/protocols/openai/request.hpp>

namespace godwit::protocols::openai {

/// How much is to be thought, as `name` of `from` says: a hint, for templates that read it. To be called when
/// `chat_template_kwargs` are known.
void parse_effort(json_reader& from, std::string_view name, chat_request& into);

/// A variable for templates that read it, unless the client has set it: the same holds.
void add_hint(std::string name, jinja::value value, chat_request& into);

/// How long an answer is wanted: the same.
void parse_verbosity(json_reader& from, chat_request& into);

/// `chat_template_kwargs`.
void parse_template_variables(json_reader& body, template_values& values, chat_request& into);

} // namespace godwit::protocols::openai
