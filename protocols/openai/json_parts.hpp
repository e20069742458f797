#pragma once

#include <godwit/protocols/openai/response.hpp>

#include <string>
#include <utility>
#include <vector>

/// What the answers of several endpoints have.
namespace godwit::protocols::openai {

template <class T> void append_integer(std::string& out, T value) { out += std::to_string(value); }

/// Calls `append` for each of `items`, with commas in between.
template <class Items, class Append> void append_list(std::string& out, const Items& items, Append append) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) out += ',';
    append(item);
  }
  out += ']';
}

/// [{"token", "logprob", "bytes", "top_logprobs"}, ...]
void append_tokens(std::string& out, const std::vector<token_choice>& tokens);

} // namespace godwit::protocols::openai
