#include "main/serve_command.hpp"

#include "main/logging.hpp"
#include "main/serving.hpp"
#include "main/settings.hpp"
#include "main/signals.hpp"

#include <godwit/runtime/config/command_line.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace godwit::main {

namespace {

struct serve_options {
  serve_settings settings;
  runtime::config::registry registry;
  runtime::config::problems problems;
  std::string model;
  std::string config_file;
  bool print_config = false;
};

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

/// Flags are in already; the file and the environment give way to them.
bool gather(serve_options& options) {
  const auto variables = environment();
  if (options.config_file.empty())
    for (const auto& [name, value] : variables)
      if (name == "GODWIT_CONFIG") options.config_file = value;
  auto add = [&](runtime::config::problems found) {
    options.problems.insert(options.problems.end(), found.begin(), found.end());
  };
  if (!options.config_file.empty()) add(options.registry.load_file(options.config_file));
  add(options.registry.load_environment(variables));
  if (options.problems.empty()) add(options.registry.validate());
  for (const auto& line : options.problems) std::cerr << "godwit: " << line << '\n';
  return options.problems.empty();
}

int serve(serve_options& options) {
  signals stop; // before any thread
  if (!gather(options)) return 2;
  if (options.print_config) {
    std::cout << options.registry.print_config();
    return 0;
  }
  auto log = open_log(options.settings);
  if (!log) {
    std::cerr << "godwit: " << log.error() << '\n';
    return 2;
  }
  auto model = open_served_model(options.model);
  if (!model) {
    std::cerr << "godwit: " << model.error().line << '\n';
    return 1;
  }
  auto started = serving::start(options.settings, std::move(*model), *log);
  if (!started) {
    std::cerr << "godwit: " << started.error().line << '\n';
    return 1;
  }
  auto node = std::move(*started);
  std::cout << "listening on " << node->url() << std::endl;
  if (!node->control().empty()) std::cout << "control on " << node->control() << std::endl;
  if (const auto error = node->wait_ready([&] { return stop.received(); })) {
    if (error->line.empty()) return 0; // told to stop before it was ready
    std::cerr << "godwit: " << error->line << '\n';
    return 1;
  }
  std::cout << "ready: " << node->model_name() << " on " << options.settings.instances.count
            << (options.settings.instances.count == 1 ? " instance" : " instances") << std::endl;
  while (!stop.received()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::cout << "draining; a second signal ends it at once" << std::endl;
  const bool drained = node->drain(options.settings.runtime.drain_timeout, [&] { return stop.received(); });
  if (!drained) std::cerr << "godwit: running requests were cut off\n";
  node.reset();
  log->flush();
  return drained ? 0 : 1;
}

} // namespace

void add_serve_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<serve_options>();
  declare(options->registry, options->settings);
  options->registry.allow_variable("GODWIT_CONFIG");
  auto* command = app.add_subcommand("serve", "Serve a model over an OpenAI-style HTTP endpoint");
  command->add_option("model", options->model, "Hugging Face model directory; without it the built-in default model")
      ->type_name("MODEL_DIR");
  command->add_option("--config", options->config_file, "TOML file with settings (or GODWIT_CONFIG)")
      ->type_name("FILE");
  command->add_flag("--print-config", options->print_config,
                    "Print every setting with its value and origin as TOML, and exit");
  runtime::config::bind(options->registry, *command, options->problems);
  command->callback([options, &result] { result.run = [options] { return serve(*options); }; });
}

void add_settings_command(CLI::App& app, command_result& result) {
  auto* command = app.add_subcommand("settings", "Print the reference page of all settings as Markdown");
  command->callback([&result] {
    result.run = [] {
      serve_settings settings;
      runtime::config::registry registry;
      declare(registry, settings);
      std::cout << registry.reference_markdown();
      return 0;
    };
  });
}

} // namespace godwit::main
