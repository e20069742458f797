#include "main/role_command.hpp"

#include "main/control_connection.hpp"
#include "main/output_file.hpp"

#include <boost/json.hpp>

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>

namespace godwit::main {

namespace {

struct role_options {
  control_place control;
  std::uint32_t instance = 0;
  std::string role;
  bool json = false;
};

int give_role(const role_options& options) {
  const auto role = protocols::parse_instance_role(options.role);
  if (!role) return fail("'" + options.role + "' is none of the roles prefill, decode and mixed", 2);
  control_connection head(options.control);
  const auto answer = head.ask(actors::role_order{protocols::instance_id{options.instance}, *role});
  if (!answer) return head.exit_code();
  if (!answer->error.empty()) return fail(answer->error, 1);
  const std::string before(to_string(answer->before));
  if (options.json) {
    std::cout << boost::json::serialize(boost::json::object{
                     {"instance", options.instance},
                     {"role", options.role},
                     {"before", before},
                     {"note", answer->note.empty() ? boost::json::value() : boost::json::value(answer->note)}})
              << std::endl;
    return 0;
  }
  std::cout << "instance " << options.instance << " is for " << options.role << " from now on";
  if (before != options.role) std::cout << ", no longer for " << before;
  std::cout << std::endl;
  if (!answer->note.empty()) std::cerr << "note: " << answer->note << '\n';
  return 0;
}

} // namespace

void add_role_command(CLI::App& app, command_result& result) {
  auto options = std::make_shared<role_options>();
  auto* command = app.add_subcommand(
      "role", "Give an instance another role while it runs; what it decodes moves away live where it is to prefill");
  command->add_option("instance", options->instance, "Its number, as 'godwit status' shows it")
      ->type_name("INSTANCE")
      ->required();
  command->add_option("role", options->role, "prefill, decode or mixed")->type_name("ROLE")->required();
  command->add_flag("--json", options->json,
                    "One JSON object on stdout: its number, its role, the one before, and a note or null");
  control_connection::add_option(*command, options->control);
  command->callback([options, &result] { result.run = [options] { return give_role(*options); }; });
}

} // namespace godwit::main
