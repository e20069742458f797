#pragma once

#include <godwit/gpu/executor.hpp>
#include <godwit/runtime/async/timer_source.hpp>
#include <godwit/transport/fabric.hpp>

#include <functional>
#include <memory>

namespace godwit::explore {

/// What an injected failure says: no complaint of the runtime's that has it is one.
inline constexpr const char* injected = "injected";

/// The same device, whose steps fail where `fails` says so: it is asked at each stretch of layers. `timers` outlive it.
[[nodiscard]] std::shared_ptr<gpu::executor>
breakable(std::shared_ptr<gpu::executor> device, runtime::async::timer_source& timers, std::function<bool()> fails);

struct fabric_hooks {
  std::function<bool()> fails;  ///< asked at each posting and send: whether it dies, or fails, at once
  std::function<void()> waited; ///< a posting was withdrawn while something was being written there
};
/// The same fabric, with what the hooks do to it.
[[nodiscard]] std::shared_ptr<transport::fabric> breakable(std::shared_ptr<transport::fabric> fabric,
                                                           runtime::async::timer_source& timers, fabric_hooks hooks);

} // namespace godwit::explore
