#pragma once

#include <godwit/actors/frontend_gate.hpp>
#include <godwit/actors/node.hpp>
#include <godwit/runtime/async/expected.hpp>
#include <godwit/runtime/host.hpp>

#include <chrono>
#include <future>
#include <memory>

namespace godwit::actors {

/// The actors of one process, as one object: what `godwit serve` runs and what embedders start with. Works on an
/// actor_system and in a simulated world alike, and goes before its host does.
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
  /// shutdown, with a grace of two seconds. Not on a thread of the host's.
  ~cluster();

  /// Stops the node, which stops the rest; open requests end with `unavailable`. Waits until the last of these actors
  /// is gone: from then on nothing of the options is called, and what they refer to may go. False where that
  /// takes longer than `grace` (a device that does not end its step): then only the host's own shutdown tells. In a
  /// simulated world it does not wait; its actors end when the world runs, and a later call says so.
  bool shutdown(std::chrono::milliseconds grace);

  /// Says that this will be shut down once what is open has ended: members that end, too, finish what they have, the
  /// last of them as well, and what no instance is left for fails at once.
  void end_soon();

  [[nodiscard]] const std::shared_ptr<frontend_gate>& gate() const noexcept { return gate_; }
  [[nodiscard]] const runtime::handle<node_interface>& node() const noexcept { return node_; }
  /// Whether the node runs. Nothing but shutdown and the host's own end should end it, but whoever reaches a control
  /// port without TLS can: then the rest has ended with it, and a process had better end too. From any thread.
  [[nodiscard]] bool alive() const noexcept { return !alive_.expired(); }
  // From any thread but the host's; errors: the node does not answer in time, or is gone.
  /// Blocks, up to half a minute (a simulation runs meanwhile).
  [[nodiscard]] runtime::async::expected<protocols::cluster_status> status(bool with_requests = false);
  /// Moves a request and waits until that has ended: blocks as long as the settings of migrations let one take, and a
  /// minute more (a simulation runs meanwhile). One that was refused or broken off is no error: its report says why.
  [[nodiscard]] runtime::async::expected<protocols::migration_report> migrate(protocols::request_id request,
                                                                              protocols::instance_id to);
  /// For drills. Nothing happens where there is no such instance.
  void kill(protocols::instance_id id);

private:
  runtime::actor_host& host_;
  std::shared_ptr<frontend_gate> gate_;
  runtime::handle<node_interface> node_;
  std::weak_ptr<const void> alive_;     ///< the node has it
  std::shared_future<void> over_;       ///< the last actor is gone
  std::chrono::nanoseconds patience_{}; ///< with an order to migrate: its home answers sooner
};

} // namespace godwit::actors
