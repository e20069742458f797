#pragma once

#include "sim/device_timers.hpp"

#include <godwit/actors/interfaces.hpp>
#include <godwit/runtime/sim/world.hpp>

#include <memory>
#include <optional>
#include <string>

namespace godwit::actors::sim {

/// The name and the port under which members find their head.
inline constexpr auto head_name = "head";
inline constexpr std::uint16_t head_port = 7700;

/// A machine of a simulated cluster with the process that runs on it, which has one instance.
struct simulated_process {
  std::string name;
  double times = 1;                             ///< how slow its device is; stays when the process ends
  std::unique_ptr<device_timers> devices;       // outlive the executors in the system
  std::unique_ptr<runtime::sim::system> system; ///< crashed: it is down
  runtime::handle<member_interface> member;
  std::optional<protocols::instance_id> instance; ///< the last one that it has started
  bool released = false;                          ///< by autoscaling; it is about to end

  [[nodiscard]] bool runs() const noexcept {
    return system && system->state() != runtime::sim::system::state_type::crashed;
  }
};

} // namespace godwit::actors::sim
