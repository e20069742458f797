#include "main/command_settings.hpp"

#include <godwit/runtime/config/command_line.hpp>

#include <iostream>
#include <utility>
#include <vector>

#include <unistd.h>

namespace godwit::main {

namespace {

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

} // namespace

void command_settings::add_to(CLI::App& command, const std::function<bool(const runtime::config::setting&)>& wanted) {
  declare(registry_, values);
  registry_.allow_variable("GODWIT_CONFIG");
  for (const char* told : {"GODWIT_HEAD", "GODWIT_NODE", "GODWIT_INSTANCE"}) // by scaling.command_out
    registry_.allow_variable(told);
  command
      .add_option("model", model, "Hugging Face model directory or GGUF file; without it the built-in default model")
      ->type_name("MODEL_DIR");
  command.add_option("--config", config_file_, "TOML file with settings (or GODWIT_CONFIG)")->type_name("FILE");
  command.add_flag("--print-config", print_config, "Print every setting with its value and origin as TOML, and exit");
  runtime::config::bind(registry_, command, problems_, wanted);
}

bool command_settings::gather() {
  const auto variables = environment();
  if (config_file_.empty())
    for (const auto& [name, value] : variables)
      if (name == "GODWIT_CONFIG") config_file_ = value;
  auto add = [&](runtime::config::problems found) { problems_.insert(problems_.end(), found.begin(), found.end()); };
  if (!config_file_.empty()) add(registry_.load_file(config_file_));
  add(registry_.load_environment(variables));
  if (problems_.empty()) add(registry_.validate());
  for (const auto& line : problems_) std::cerr << "godwit: " << line << '\n';
  return problems_.empty();
}

std::vector<std::pair<std::string, std::string>> command_settings::variables() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& s : registry_.settings())
    if (auto text = registry_.text(s); text != s.default_text) out.emplace_back(s.variable, std::move(text));
  return out;
}

} // namespace godwit::main
