#pragma once

#include <caf/actor_system.hpp>
#include <caf/node_id.hpp>

#include <utility>

/// CAF's actor_system has this class for a friend and only declares it: the one way to give a system its node's id.
namespace caf::net {
class middleman {
public:
  static void set_node(actor_system& system, node_id id) { system.node_ = std::move(id); }
};
} // namespace caf::net
