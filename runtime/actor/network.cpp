#include "actor/network.hpp"

#include "actor/node_identity.hpp"

#include <godwit/runtime/machine.hpp>

#include <cstdint>

#include <unistd.h>

namespace godwit::runtime::detail {

caf::node_id unique_node() {
  caf::node_id::default_data::host_id_type drawn{};
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    if (i % sizeof bits == 0) bits = entropy();
    drawn.at(i) = static_cast<std::uint8_t>(bits >> (i % sizeof bits * 8));
  }
  return caf::make_node_id(static_cast<std::uint32_t>(::getpid()), drawn);
}

caf::actor_system::module* network::make(caf::actor_system& system, caf::detail::type_list<>) {
  return new network(system); // the system's
}

// Before the system makes its first actor, which takes the id.
void network::init(caf::actor_system_config& config) {
  middleman::init(config);
  caf::net::middleman::set_node(system(), unique_node());
}

} // namespace godwit::runtime::detail
