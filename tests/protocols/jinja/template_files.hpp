#pragma once

#include "openai/json_value.hpp"

#include <godwit/protocols/jinja/template.hpp>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace godwit::protocols::jinja::tests {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string text_of(const boost::json::value& of) { return {of.as_string().data(), of.as_string().size()}; }

/// The fields of an object; strings are content, but for bos_token and eos_token.
inline variables variables_of(const boost::json::value& of) {
  variables out;
  for (const auto& field : of.as_object()) {
    const std::string name(field.key().data(), field.key().size());
    const bool token = name == "bos_token" || name == "eos_token";
    out.emplace_back(name, token ? value::markup(text_of(field.value())) : openai::to_template_value(field.value()));
  }
  return out;
}

} // namespace godwit::protocols::jinja::tests
