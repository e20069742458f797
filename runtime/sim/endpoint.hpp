#pragma once

#include "sim/node.hpp"
#include "sim/packet.hpp"

#include <caf/actor_proxy.hpp>
#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/proxy_registry.hpp>

namespace godwit::runtime::sim::detail {

class network_state;

/// A node's end of the network: what CAF's middleman is in production. Actors of other nodes are CAF's own proxies in
/// CAF's own registry, so handles, senders, monitors and links work as they do there.
class endpoint final : public caf::proxy_registry::backend {
public:
  endpoint(caf::actor_system& system, caf::execution_unit& unit, network_state& network, node& owner);

  [[nodiscard]] caf::proxy_registry& proxies() noexcept { return proxies_; }
  /// A packet for this node has come from that peer.
  void take(packet p, node& peer);
  /// The connection to that peer is gone.
  void lost(const node& peer);
  void clear();

  // for its proxies
  void send(caf::mailbox_element& message, caf::actor_control_block& to);
  void proxy_ended(const caf::node_id& id, caf::actor_id actor, const caf::actor_proxy* which);

  // what CAF calls while it reads handles
  caf::strong_actor_ptr make_proxy(caf::node_id id, caf::actor_id actor) override;
  void set_last_hop(caf::node_id*) override {}

private:
  void take_message(packet& p);
  void announce(const packet& p);
  caf::actor_system& system_;
  caf::execution_unit& unit_;
  network_state& network_;
  node& node_;
  caf::proxy_registry proxies_;
  const node* last_hop_ = nullptr; ///< whose message is being read
  bool erasing_ = false;
};

} // namespace godwit::runtime::sim::detail
