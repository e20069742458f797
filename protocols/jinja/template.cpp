#include <godwit/protocols/jinja/template.hpp>

#include "jinja/interpreter.hpp"
#include "jinja/parser.hpp"

#include <utility>

namespace godwit::protocols::jinja {

std::string to_string(const error& what) { return "line " + std::to_string(what.line) + ": " + what.message; }

expected<compiled_template, error> compiled_template::compile(std::string source, const source_limits& limits) {
  if (source.size() > limits.bytes_max)
    return unexpected(error{"a template of " + std::to_string(source.size()) + " bytes; the limit is " +
                                std::to_string(limits.bytes_max),
                            1, false});
  try {
    auto found = std::make_shared<names>();
    compiled_template out;
    out.root_ = parser(tokenize(source), limits, *found).whole();
    out.names_ = std::move(found);
    out.source_ = std::make_shared<const std::string>(std::move(source));
    return out;
  } catch (failure& failed) {
    return unexpected(std::move(failed.what));
  }
}

expected<text, error> compiled_template::render(const variables& given, const render_options& options) const {
  try {
    return interpreter(options, given).run(*root_);
  } catch (failure& failed) {
    return unexpected(std::move(failed.what));
  }
}

} // namespace godwit::protocols::jinja
