#include "main/control_connection.hpp"

#include "main/settings.hpp"

#include <algorithm>
#include <iostream>

namespace godwit::main {

void control_connection::add_option(CLI::App& command, control_place& place) {
  command.add_option("--control", place.address, "Control port of the head")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  const auto file = [&](const char* flag, const char* variable, std::string& path, const char* what) {
    command.add_option(flag, path, what)->type_name("FILE")->envname(variable);
  };
  file("--cluster-tls-cert", "GODWIT_CLUSTER_TLS_CERT", place.tls.certificate,
       "PEM file of this command's certificate, where the cluster speaks TLS");
  file("--cluster-tls-key", "GODWIT_CLUSTER_TLS_KEY", place.tls.key, "PEM file of its key");
  file("--cluster-tls-ca", "GODWIT_CLUSTER_TLS_CA", place.tls.authorities,
       "PEM file of the authorities that sign the cluster's certificates");
}

control_connection::control_connection(const control_place& place)
    : address_(place.address), exit_code_(connect(place)) {}

int control_connection::connect(const control_place& place) {
  const auto endpoint = parse_endpoint(address_);
  if (!endpoint) {
    std::cerr << "godwit: --control: '" << address_ << "' is not HOST:PORT, such as 127.0.0.1:7070\n";
    return 2;
  }
  runtime::actor_system_settings settings;
  settings.network = true;
  settings.connection_timeout = std::chrono::seconds(10); // a busy head is not a dead one
  settings.report = [](std::string_view, std::string_view) {};
  const auto given = {!place.tls.certificate.empty(), !place.tls.key.empty(), !place.tls.authorities.empty()};
  if (std::count(given.begin(), given.end(), true) != 0) {
    if (std::count(given.begin(), given.end(), false) != 0) {
      std::cerr << "godwit: --cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca are given together\n";
      return 2;
    }
    auto gate = transport::tls::make_gate(place.tls);
    if (!gate) {
      std::cerr << "godwit: " << gate.error().message << '\n';
      return 2;
    }
    settings.gate = std::move(*gate);
  }
  system_ = std::make_unique<runtime::actor_system>(std::move(settings));
  auto node = system_->remote<actors::node_interface>(endpoint->host, endpoint->port);
  if (node) {
    node_ = std::move(*node);
    return 0;
  }
  std::cerr << "godwit: no godwit answers at " << address_ << " (" << node.error().message
            << "); start one with 'godwit serve', or name its control port with --control\n";
  return 1;
}

control_connection::~control_connection() = default;

void control_connection::silent(const runtime::async::error& why) {
  const bool lost = why.code == runtime::async::error_code::down;
  std::cerr << "godwit: " << address_ << " does not answer: " << (lost ? "the connection is lost" : why.message)
            << '\n';
  exit_code_ = 1;
}

} // namespace godwit::main
