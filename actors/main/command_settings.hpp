#pragma once

#include "main/settings.hpp"

#include <godwit/runtime/config/registry.hpp>

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace godwit::main {

/// The settings of a command that runs instances: flags, file, environment. Must outlive the parsing.
struct command_settings {
  serve_settings values;
  std::string model;
  bool print_config = false;

  /// Declares all and adds the flags, those of `wanted` if it is given, with --config, --print-config and MODEL_DIR.
  void add_to(CLI::App& command, const std::function<bool(const runtime::config::setting&)>& wanted = {});
  /// After the flags: file and environment, which give way to them. False: said on standard error what is wrong.
  [[nodiscard]] bool gather();
  [[nodiscard]] std::string text() const { return registry_.print_config(); }
  /// Those that are not the default, as variables: what another process needs to be set up alike.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> variables() const;

private:
  runtime::config::registry registry_;
  runtime::config::problems problems_;
  std::string config_file_;
};

} // namespace godwit::main
