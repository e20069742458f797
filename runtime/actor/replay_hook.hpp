#pragma once

#include <caf/mailbox_element.hpp>

#include <cstdint>

namespace godwit::runtime::detail {

class actor_core;

/// Takes messages out of the actors' hands while a recording is replayed (sim/replay.hpp).
class replay_hook {
public:
  /// Instead of into its mailbox.
  virtual void hold(actor_core& receiver, caf::mailbox_element_ptr message) = 0;
  /// The id of an actor that is being spawned by this event.
  virtual std::uint64_t actor_id_for(std::uint64_t event, bool outside) = 0;
  /// Instead of being launched.
  virtual void born(actor_core& actor, std::uint64_t event) = 0;

protected:
  ~replay_hook() = default;
};

} // namespace godwit::runtime::detail
