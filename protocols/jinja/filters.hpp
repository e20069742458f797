#pragma once

#include "jinja/interpreter.hpp"

#include <string_view>

namespace godwit::protocols::jinja {

using filter_function = value (*)(interpreter& machine, const value& of, call_arguments& with);

/// Null where there is none of this name.
[[nodiscard]] filter_function find_filter(std::string_view name);
[[nodiscard]] filter_function find_list_filter(std::string_view name);

} // namespace godwit::protocols::jinja
