#pragma once

#include <godwit/protocols/jinja/value.hpp>

#include <boost/json/value.hpp>

namespace godwit::protocols::openai {

/// What a client sent, for a template: strings are content.
[[nodiscard]] jinja::value to_template_value(const boost::json::value& of);

} // namespace godwit::protocols::openai
