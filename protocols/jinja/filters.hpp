#pragma once

#include "jinja/interpreter.hpp"

#include <string_view>

namespace godwit::protocols::jinja {

struct known_filter {
  std::string_view name;
  value (*function)(interpreter& machine, const value& of, call_arguments& with);
  std::string_view parameters; ///< as in interpreter::check_arguments
};

/// Null where there is none of this name.
[[nodiscard]] const known_filter* find_filter(std::string_view name);
[[nodiscard]] const known_filter* find_list_filter(std::string_view name);

} // namespace godwit::protocols::jinja
