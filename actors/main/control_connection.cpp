#include "main/control_connection.hpp"

#include "main/settings.hpp"

#include <iostream>

namespace godwit::main {

void control_connection::add_option(CLI::App& command, std::string& address) {
  command.add_option("--control", address, "Control port of the head")->type_name("HOST:PORT")->capture_default_str();
}

control_connection::control_connection(std::string address) : address_(std::move(address)) {
  const auto endpoint = parse_endpoint(address_);
  if (!endpoint) {
    std::cerr << "godwit: --control: '" << address_ << "' is not HOST:PORT, such as 127.0.0.1:7070\n";
    exit_code_ = 2;
    return;
  }
  runtime::actor_system_settings settings;
  settings.network = true;
  settings.connection_timeout = std::chrono::seconds(10); // a busy head is not a dead one
  settings.report = [](std::string_view, std::string_view) {};
  system_ = std::make_unique<runtime::actor_system>(std::move(settings));
  auto node = system_->remote<actors::node_interface>(endpoint->host, endpoint->port);
  if (node) {
    node_ = std::move(*node);
    return;
  }
  std::cerr << "godwit: no godwit answers at " << address_ << " (" << node.error().message
            << "); start one with 'godwit serve', or name its control port with --control\n";
  exit_code_ = 1;
}

control_connection::~control_connection() = default;

void control_connection::silent(const std::string& why) {
  std::cerr << "godwit: " << address_ << " does not answer: " << why << '\n';
  exit_code_ = 1;
}

} // namespace godwit::main
