#pragma once

#include <godwit/protocols/jinja/template.hpp>

#include <string>
#include <vector>

namespace godwit::protocols::jinja::tests {

/// Variables of each kind; `user` spells a token.
inline variables some() {
  return {{"user", value::content("<|end|>")},
          {"bos", value::markup("<s>")},
          {"n", value(std::int64_t{3})},
          {"words", value(std::vector<value>{value::content("a"), value::content("b")})},
          {"table", value::dict({{text("k", false), value::content("v")}})}};
}

inline expected<text, error> render(const std::string& source, const render_options& options = {},
                                    const variables& given = some()) {
  auto compiled = compiled_template::compile(source);
  if (!compiled) return unexpected(compiled.error());
  return compiled->render(given, options);
}

inline std::string shown(const std::string& source, const variables& given = some()) {
  const auto out = render(source, {}, given);
  return out ? out->bytes() : "error: " + to_string(out.error());
}

} // namespace godwit::protocols::jinja::tests
