#include "openai/parse_template.hpp"

#include "openai/json_value.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace godwit::protocols::openai {

namespace {

constexpr std::array<std::string_view, 7> reasoning_efforts{"none", "minimal", "low", "medium", "high", "xhigh", "max"};

constexpr std::array<std::string_view, 3> verbosities{"low", "medium", "high"};

/// A template looks variables up one after the other.
constexpr std::size_t template_kwargs_max = 64;

} // namespace

void parse_effort(json_reader& from, std::string_view name, chat_request& into) {
  const auto effort = from.text(name);
  if (!effort) return;
  const auto path = from.path_of(name);
  if (std::ranges::find(reasoning_efforts, *effort) == reasoning_efforts.end())
    fail(invalid_value(path, "'" + path + "' must be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'."));
  add_hint("reasoning_effort", jinja::value::content(*effort), into);
}

void add_hint(std::string name, jinja::value value, chat_request& into) {
  const auto set = [&name](const auto& variable) { return variable.first == name; };
  if (std::ranges::none_of(into.template_variables, set))
    into.template_hints.emplace_back(std::move(name), std::move(value));
}

void parse_verbosity(json_reader& from, chat_request& into) {
  const auto verbosity = from.text("verbosity");
  if (!verbosity) return;
  const auto path = from.path_of("verbosity");
  if (std::ranges::find(verbosities, *verbosity) == verbosities.end())
    fail(invalid_value(path, "'" + path + "' must be 'low', 'medium' or 'high'."));
  add_hint("verbosity", jinja::value::content(*verbosity), into);
}

void parse_template_variables(json_reader& body, template_values& values, chat_request& into) {
  const auto* given = body.object("chat_template_kwargs");
  if (given == nullptr) return;
  if (given->size() > template_kwargs_max)
    fail(invalid_value("chat_template_kwargs", "'chat_template_kwargs' may have up to " +
                                                   std::to_string(template_kwargs_max) + " fields, not " +
                                                   std::to_string(given->size()) + "."));
  values.add(*body.value("chat_template_kwargs"), "chat_template_kwargs");
  for (const auto& field : *given) {
    std::string name(field.key().data(), field.key().size());
    for (const std::string_view own : {"messages", "tools", "documents", "bos_token", "eos_token", "chat_template",
                                       "tokenize", "add_generation_prompt"})
      if (name == own)
        fail(invalid_value("chat_template_kwargs." + name,
                           "'" + name + "' cannot be set through 'chat_template_kwargs'."));
    into.template_variables.emplace_back(std::move(name), to_template_value(field.value()));
  }
}

} // namespace godwit::protocols::openai
