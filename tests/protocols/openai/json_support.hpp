#pragma once

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <string>
#include <string_view>

namespace godwit::protocols::openai::testing_support {

/// What we wrote, as another implementation reads it. Throws where it is not JSON.
inline boost::json::value read(std::string_view text) { return boost::json::parse({text.data(), text.size()}); }

inline std::string string_at(const boost::json::value& value, std::string_view pointer) {
  const auto& text = value.at_pointer({pointer.data(), pointer.size()}).as_string();
  return {text.data(), text.size()};
}

} // namespace godwit::protocols::openai::testing_support
