#include "main/usage_error.hpp"

#include <godwit/runtime/config/nearest.hpp>

#include <vector>

namespace godwit::main {

namespace {

/// The subcommand that was chosen last, or the program.
const CLI::App& chosen(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : chosen(*below.front());
}

std::string path_of(const CLI::App& command) {
  const auto* parent = command.get_parent();
  return parent == nullptr ? "godwit" : path_of(*parent) + " " + command.get_name();
}

std::vector<std::string> known_names(const CLI::App& command) {
  std::vector<std::string> out;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) out.push_back("--" + name);
  for (const auto* below : command.get_subcommands([](const CLI::App*) { return true; }))
    out.push_back(below->get_name());
  return out;
}

} // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto& command = chosen(app);
  const auto help = "; see '" + path_of(command) + " --help'";
  const auto extras = command.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty()) {
    const auto& word = extras.front();
    const auto name = word.substr(0, word.find('='));
    const auto near = runtime::config::nearest(name, known_names(command));
    return (name.starts_with("-") ? "unknown flag " : "unexpected argument ") + name +
           (near.empty() ? help : "; did you mean " + near + "?");
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && &command == &app && !app.remaining().empty()) {
    const auto word = app.remaining().front();
    const auto near = runtime::config::nearest(word, known_names(app));
    return "no command is called '" + word + "'" + (near.empty() ? help : "; did you mean " + near + "?");
  }
  return std::string(error.what()) + help;
}

} // namespace godwit::main
