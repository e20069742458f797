#pragma once

#include <godwit/actors/frontend_gate.hpp>
#include <godwit/actors/node.hpp>
#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/host.hpp>

#include <chrono>
#include <memory>

namespace godwit::actors {

/// The actors of one process, as one object: what `godwit serve` runs and what embedders start with. Works on an
/// actor_system and in a simulated world alike.
///
///     runtime::actor_system system;
///     actors::cluster cluster(system, options);
///     cluster.gate()->wait_ready(1, 10s);
///     cluster.gate()->submit({submission});
class cluster {
public:
  /// Throws std::invalid_argument, with what node_options::validate says, where the options cannot be used.
  cluster(runtime::actor_host& host, node_options options);
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;
  /// Stops the node, which stops the rest. Open requests end with `unavailable`.
  ~cluster();

  [[nodiscard]] const std::shared_ptr<frontend_gate>& gate() const noexcept { return gate_; }
  [[nodiscard]] const runtime::handle<node_interface>& node() const noexcept { return node_; }
  /// Blocks (a simulation runs meanwhile).
  [[nodiscard]] runtime::async::expected<protocols::cluster_status> status(bool with_requests = false);
  /// Moves a request and waits until that has ended. Blocks (a simulation runs meanwhile).
  [[nodiscard]] runtime::async::expected<protocols::migration_report> migrate(protocols::request_id request,
                                                                              protocols::instance_id to);
  /// For drills.
  void kill(protocols::instance_id id);

private:
  runtime::actor_host& host_;
  std::shared_ptr<frontend_gate> gate_;
  runtime::handle<node_interface> node_;
  std::chrono::nanoseconds patience_{}; ///< with an order to migrate: its home answers sooner
};

} // namespace godwit::actors
