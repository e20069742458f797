#pragma once

#include <godwit/protocols/jinja/value.hpp>

#include <boost/json/value.hpp>

#include <cstddef>

namespace godwit::protocols::openai {

/// What a client sent, for a template: strings are content.
[[nodiscard]] jinja::value to_template_value(const boost::json::value& of);
/// How many values it is made of, itself included: a template's value takes more memory than its text.
[[nodiscard]] std::size_t values_in(const boost::json::value& of) noexcept;

} // namespace godwit::protocols::openai
