#include "main/drain_command.hpp"

#include "main/control_connection.hpp"

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

namespace godwit::main {

namespace {

struct drain_options {
  control_place control;
  std::uint32_t instance = 0;
  bool undo = false;
};

int drain(const drain_options& options) {
  control_connection head(options.control);
  const auto answer = head.ask(actors::drain_instance{protocols::instance_id{options.instance}, !options.undo});
  if (!answer) return head.exit_code();
  if (!answer->error.empty()) {
    std::cerr << "godwit: " << answer->error << '\n';
    return 1;
  }
  std::cout << "instance " << options.instance
            << (options.undo
                    ? " takes requests again\n"
                    : " drains: it takes no more requests, and stops when it has none; 'godwit status' shows how far "
                      "it is\n")
            << std::flush;
  return 0;
}

} // namespace

void add_drain_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<drain_options>();
  auto* command = app.add_subcommand(
      "drain", "Take an instance out: its requests move away, or end there by the migration policy never");
  command->add_option("instance", options->instance, "Its number, as 'godwit status' shows it")
      ->type_name("INSTANCE")
      ->required();
  command->add_flag("--undo", options->undo, "Take it back: the instance takes requests again");
  control_connection::add_option(*command, options->control);
  command->callback([options, &result] { result.run = [options] { return drain(*options); }; });
}

} // namespace godwit::main
