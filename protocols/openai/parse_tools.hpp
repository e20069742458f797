#pragma once

#include "openai/json_reader.hpp"
#include "openai/parse_common.hpp"

#include <godwit/protocols/openai/request.hpp>

namespace godwit::protocols::openai {

/// Counts what goes to the template, over all of a request.
class template_values {
public:
  explicit template_values(const request_limits& limits) : left_(limits.template_values_max) {}
  /// Fails where it becomes too much.
  void add(const boost::json::value& value, const std::string& path);

private:
  std::size_t left_;
};

/// `tools`, `tool_choice`, `parallel_tool_calls`. A choice that has to be made becomes a schema of the answer.
/// Templates are given tools as chats have them.
void parse_tools(json_reader& body, dialect words, const request_limits& limits, template_values& values,
                 chat_request& into);

/// The `name` and `arguments` of a call that an earlier answer made.
[[nodiscard]] chat_tool_call parse_called(json_reader& function, const request_limits& limits, template_values& values);
/// An assistant's `tool_calls`.
[[nodiscard]] std::vector<chat_tool_call> parse_tool_calls(json_reader& message, const request_limits& limits,
                                                           template_values& values);

} // namespace godwit::protocols::openai
