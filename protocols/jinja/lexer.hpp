#pragma once

#include "jinja/ast.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace godwit::protocols::jinja {

enum class token_kind : std::uint8_t {
  text,        ///< between the tags
  block_begin, ///< {%
  block_end,
  output_begin, ///< {{
  output_end,
  name,
  string, ///< without quotes and escapes
  integer,
  real,
  sign, ///< operators and brackets
  end,
};

struct token {
  token_kind kind = token_kind::end;
  std::string text;
  std::uint32_t line = 0;
};

/// Cuts a template into tokens. White space around tags is gone as trim_blocks and lstrip_blocks want it (Hugging
/// Face sets both), and as "-" and "+" in the tags say; comments are gone; raw blocks are text.
[[nodiscard]] std::vector<token> tokenize(std::string_view source);

} // namespace godwit::protocols::jinja
