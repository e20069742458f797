#pragma once

#include "actor/multiplexer.hpp"

#include <caf/io/middleman.hpp>
#include <caf/node_id.hpp>

namespace godwit::runtime::detail {

/// An id that no other process has. CAF's own is made of the machine's addresses, its disks and the process's number:
/// two containers on one machine, in each of which the program is process 1, have the same, and are one node for all
/// others; a container that is started again has that of its predecessor.
[[nodiscard]] caf::node_id unique_node();

/// CAF's network, with our loop over its connections and an id of our own.
class network final : public caf::io::middleman {
public:
  explicit network(caf::actor_system& system) : middleman(system), multiplexer_(&system) {}
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>);
  void init(caf::actor_system_config& config) override;
  caf::io::network::multiplexer& backend() override { return multiplexer_; }

private:
  multiplexer multiplexer_;
};

} // namespace godwit::runtime::detail
